"""What a TalosProducer can be told, and what it tells of each message."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from opentalos.model.errors import ConfigError, OutcomeUnknown, TalosError
from opentalos.sdk.core.producer.partitioner import Partitioner, partition_of
from opentalos.sdk.core.values import Compression, Message


class Outcome(Enum):
    """What became of a message that could not be confirmed as stored."""

    NOT_DONE = "not done"  # it is not stored; sending it again stores it once
    UNKNOWN = "unknown"  # it is stored or not; sending it again may store it twice


# A message, or for a table the numbers of its rows that lie one after the other in the log.
Sent = Message | Sequence[int]
# What was sent, its partition, and its offset (of the first row); None: the server did not tell.
OnSuccess = Callable[[Sent, int, int | None], object]
OnError = Callable[[Sent, TalosError, Outcome], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """How a TalosProducer collects and sends; checked on construction.

    ``idempotent``: True: a put that is repeated is stored once, NotSupported if the server cannot
    tell; False: at least once; "auto": as the server can.

    Raises: ConfigError: a value is out of its range.
    """

    batch_bytes_max: int = 1 << 20  # of one block, before compression; one message may be larger
    batch_messages_max: int = 2_000  # of one block
    linger_s: float = 0.2  # a message waits so long for others to share its block
    buffer_bytes_max: int = 64 << 20  # of all messages without an outcome, objects and copies too
    when_full: Literal["block", "raise"] = "block"  # a put without room waits, or is refused
    block_s_max: float = 60.0  # it waits so long at most, then it is refused
    compression: Compression = Compression.SNAPPY  # as the official clients
    delivery_deadline_s: float = 120.0  # from the first put of a block to its outcome
    close_s: float = 30.0  # close waits so long for what is buffered
    requests_max: int = 16  # blocks on their way, to all partitions; one to each
    idempotent: Literal["auto"] | bool = "auto"
    partitioner: Partitioner = partition_of  # of messages with a key

    @property
    def waiting_bytes_max(self) -> int:
        """Bytes of messages that are taken at once. The rest of the buffer is for the blocks and
        requests that are made of them: a copy each, of so many as may be on their way."""
        copies = 2 * self.requests_max * self.batch_bytes_max
        return max(self.buffer_bytes_max - copies, self.buffer_bytes_max // 3)

    def __post_init__(self) -> None:
        numbers = (
            self.batch_bytes_max,
            self.batch_messages_max,
            self.buffer_bytes_max,
            self.requests_max,
        )
        if min(numbers) < 1:
            raise ConfigError("bounds of a producer must be above 0")
        if self.delivery_deadline_s <= 0 or min(self.linger_s, self.block_s_max, self.close_s) < 0:
            raise ConfigError("times of a producer must not be negative, its deadline above 0")
        if self.when_full not in ("block", "raise"):
            raise ConfigError(f"when_full is {self.when_full!r}, need 'block' or 'raise'")
        if self.idempotent not in ("auto", True, False):
            raise ConfigError(f"idempotent is {self.idempotent!r}, need 'auto', True or False")


def outcome_of(error: TalosError) -> Outcome:
    """What an error says about the message it is about."""
    return Outcome.UNKNOWN if isinstance(error, OutcomeUnknown) else Outcome.NOT_DONE
