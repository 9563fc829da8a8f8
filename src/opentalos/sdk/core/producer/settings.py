"""Settings and callback types of a TalosProducer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal, NamedTuple, Self

from opentalos.model.errors import ConfigError, OutcomeUnknown, TalosError
from opentalos.sdk.core.producer.partitioner import Partitioner
from opentalos.sdk.core.values import Compression, Message


class Outcome(Enum):
    """The outcome of a message that is not confirmed as stored."""

    NOT_DONE = "not done"  # not stored; sending it again is safe
    UNKNOWN = "unknown"  # stored or not; sending it again may store it twice


class Undelivered(NamedTuple):
    """How many messages are not confirmed as stored, by outcome."""

    not_stored: int = 0
    unknown: int = 0  # stored or not

    def since(self, earlier: Self) -> "Undelivered":
        """Those that ``earlier`` did not count."""
        return Undelivered(self.not_stored - earlier.not_stored, self.unknown - earlier.unknown)


# Of messages: the message, its partition, and its own offset, also within a batch; the offset is
# None if the server does not report it: OpenTalos does, official servers do not.
OnSuccess = Callable[[Message, int, int | None], object]
OnError = Callable[[Message, TalosError, Outcome], object]
# Of rows of an Arrow table: the numbers of rows stored consecutively, the partition, and the offset
# of the first one; None as above.
OnRowsSuccess = Callable[[Sequence[int], int, int | None], object]
OnRowsError = Callable[[Sequence[int], TalosError, Outcome], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    """Settings of a TalosProducer; checked on construction.

    ``idempotent``: True: retried puts are stored once, NotSupported if the server lacks
    idempotent puts; False: at-least-once delivery; "auto": idempotent if the server supports it.

    Raises: ConfigError: a value is out of range.
    """

    batch_bytes_max: int = 1 << 20  # of one batch, before compression; one message may be larger
    batch_messages_max: int = 2_000  # of one batch
    # A batch waits this long for more messages. None: not at all while its partition has nothing in
    # flight and the producer little, else for 5 ms at most.
    linger_s: float | None = None
    buffer_bytes_max: int = (
        64 << 20
    )  # for messages without an outcome, including objects and copies
    when_full: Literal["block", "raise"] = "block"  # what a put does if the buffer is full
    block_s_max: float = 60.0  # it blocks this long at most, then raises BufferFull
    compression: Compression = Compression.SNAPPY  # the default of the official clients
    delivery_deadline_s: float = 120.0  # from the first put of a batch to its outcome
    close_s: float = 30.0  # close waits this long for buffered messages
    requests_max: int = 16  # batches in flight, at most one per partition
    idempotent: Literal["auto"] | bool = "auto"
    partitioner: Partitioner | None = None  # for messages with a key; None: the topic's

    @property
    def waiting_bytes_max(self) -> int:
        """Bytes of buffered messages. The rest of the buffer is for the encoded block and the
        request of each batch in flight."""
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
            raise ConfigError("batch, buffer and request limits must be greater than 0")
        waits_s = (self.linger_s or 0.0, self.block_s_max, self.close_s)
        if self.delivery_deadline_s <= 0 or min(waits_s) < 0:
            raise ConfigError(
                "delivery_deadline_s must be above 0, linger_s, block_s_max and close_s 0 or more"
            )
        if self.when_full not in ("block", "raise"):
            raise ConfigError(f"when_full must be 'block' or 'raise', not {self.when_full!r}")
        if self.idempotent not in ("auto", True, False):
            raise ConfigError(f"idempotent must be 'auto', True or False, not {self.idempotent!r}")


def outcome_of(error: TalosError) -> Outcome:
    """The outcome that an error states."""
    return Outcome.UNKNOWN if isinstance(error, OutcomeUnknown) else Outcome.NOT_DONE
