"""What `talos produce` writes with, and the account of what became of every message."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

from opentalos.sdk import Client, Outcome, ProducerSettings, SimpleProducer, TalosProducer
from opentalos.sdk.core.values import Compression, Message
from opentalos.sdk.errors import OutcomeUnknown, TalosError

_LOOK_S: Final = 0.2  # so often a flush tells how far it is


@dataclass(slots=True)
class Account:
    """Messages by what became of them; ``error`` is the first one."""

    taken: int = 0
    not_done: int = 0
    unknown: int = 0
    error: TalosError | None = field(default=None)

    @property
    def stored(self) -> int:
        """Once all have their outcome."""
        return max(0, self.taken - self.not_done - self.unknown)

    def failed(self, count: int, error: TalosError, unknown: bool) -> None:
        """So many are not stored, or nobody knows."""
        self.error = self.error or error
        if unknown:
            self.unknown += count
        else:
            self.not_done += count

    @contextmanager
    def taking(self, count: int) -> Iterator[None]:
        """Count messages that are put inside; an error there is theirs, and goes no further."""
        self.taken += count
        try:
            yield
        except TalosError as error:
            self.failed(count, error, isinstance(error, OutcomeUnknown))
        except KeyboardInterrupt:
            self.failed(count, OutcomeUnknown("interrupted"), True)
            raise

    def __str__(self) -> str:
        text = f"{self.stored} {'message' if self.stored == 1 else 'messages'} stored"
        if self.not_done:
            text += f", {self.not_done} not stored"
        if self.unknown:
            text += f", {self.unknown} unknown (stored or not)"
        return text


class Writer(Protocol):
    """Takes messages; after ``finish`` every one has its place in the account, which also has the
    errors."""

    account: Account

    def put(self, messages: Sequence[Message]) -> None: ...
    def finish(self, timeout_s: float) -> None: ...


class KeyedWriter:
    """Messages to the partitions of their keys, else in turns; sent in the background."""

    def __init__(self, client: Client, topic: str, settings: ProducerSettings) -> None:
        self.account = Account()
        self._producer = TalosProducer(client, topic, settings)

    def put(self, messages: Sequence[Message]) -> None:
        """Of one part, which the producer takes whole or not at all."""
        with self.account.taking(len(messages)):
            self._producer.put_many(messages, on_error=self._failed)

    def finish(self, timeout_s: float) -> None:
        """Wait until all have their outcome; a KeyboardInterrupt or the time ends it."""
        try:
            self._flush(timeout_s)
        except KeyboardInterrupt:
            pass  # the account says what is unknown
        finally:
            self._producer.close(0.0)

    def _flush(self, timeout_s: float) -> None:
        # In short waits, since a thread that waits for a lock may not see Ctrl-C before its end.
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s:
            try:
                self._producer.flush(_LOOK_S)
            except TimeoutError:
                continue
            return

    def _failed(self, _message: object, error: TalosError, outcome: Outcome) -> None:
        self.account.failed(1, error, outcome is Outcome.UNKNOWN)


class PartitionWriter:
    """Messages to one partition, block by block: each ``put`` waits until they are stored."""

    def __init__(
        self, client: Client, topic: str, partition: int, compression: Compression
    ) -> None:
        self.account = Account()
        self._producer = SimpleProducer(client, topic, partition, compression=compression)

    def put(self, messages: Sequence[Message]) -> None:
        """All are stored, or the account says what they are."""
        with self.account.taking(len(messages)):
            self._producer.put(messages)

    def finish(self, timeout_s: float) -> None:
        """Nothing waits."""
        self._producer.close()
