"""The writers of `talos produce`, and the count of outcomes that they keep."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from opentalos.cli.counts import counted
from opentalos.sdk import Client, Outcome, ProducerSettings, SimpleProducer, TalosProducer
from opentalos.sdk.core.values import Compression, Message
from opentalos.sdk.errors import OutcomeUnknown, TalosError

_FLUSH_S: Final = 0.2  # one wait inside a flush


@dataclass(slots=True)
class Account:
    """The number of messages by outcome; ``error`` is the first error."""

    taken: int = 0
    not_done: int = 0
    unknown: int = 0
    error: TalosError | None = field(default=None)

    @property
    def stored(self) -> int:
        """Stored messages; final once every outcome is known."""
        return max(0, self.taken - self.not_done - self.unknown)

    def failed(self, count: int, error: TalosError, unknown: bool) -> None:
        """Count messages that are not stored, or whose outcome is unknown."""
        self.error = self.error or error
        if unknown:
            self.unknown += count
        else:
            self.not_done += count

    @contextmanager
    def taking(self, count: int) -> Iterator[None]:
        """Count messages that are put in the block; an error in it is counted and suppressed."""
        self.taken += count
        try:
            yield
        except TalosError as error:
            self.failed(count, error, isinstance(error, OutcomeUnknown))
        except KeyboardInterrupt:
            self.failed(count, OutcomeUnknown("interrupted"), True)
            raise

    def __str__(self) -> str:
        text = f"{counted(self.stored, 'message')} stored"
        if self.not_done:
            text += f", {self.not_done} not stored"
        if self.unknown:
            text += f", {self.unknown} unknown (may be stored)"
        return text


class Writer(Protocol):
    """Takes messages; after ``finish`` the account has the outcome of every message."""

    account: Account

    def put(self, messages: Sequence[Message]) -> None: ...
    def finish(self, timeout_s: float) -> None: ...


class KeyedWriter:
    """Sends messages to the partitions of their keys, others round-robin, in the background."""

    def __init__(self, client: Client, topic: str, settings: ProducerSettings) -> None:
        self.account = Account()
        self._producer = TalosProducer(client, topic, settings)

    def put(self, messages: Sequence[Message]) -> None:
        """Hand over a part, which the producer accepts as a whole or not at all."""
        with self.account.taking(len(messages)):
            self._producer.put_many(messages, on_error=self._failed)

    def finish(self, timeout_s: float) -> None:
        """Wait for every outcome, at most ``timeout_s`` and until a KeyboardInterrupt."""
        try:
            self._flush(timeout_s)
        except KeyboardInterrupt:
            pass  # the account counts the rest as unknown
        finally:
            self._producer.close(0.0)

    def _flush(self, timeout_s: float) -> None:
        # Short waits: Ctrl-C is only handled once a wait for a lock returns.
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s:
            try:
                self._producer.flush(_FLUSH_S)
            except TimeoutError:
                continue
            return

    def _failed(self, _message: object, error: TalosError, outcome: Outcome) -> None:
        self.account.failed(1, error, outcome is Outcome.UNKNOWN)


class PartitionWriter:
    """Sends messages to one partition; each ``put`` waits until its block is stored."""

    def __init__(
        self, client: Client, topic: str, partition: int, compression: Compression
    ) -> None:
        self.account = Account()
        self._producer = SimpleProducer(client, topic, partition, compression=compression)

    def put(self, messages: Sequence[Message]) -> None:
        """Put a block and count its outcome."""
        with self.account.taking(len(messages)):
            self._producer.put(messages)

    def finish(self, timeout_s: float) -> None:
        """Close the producer; there is nothing to wait for."""
        self._producer.close()
