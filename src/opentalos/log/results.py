"""What the log takes and gives besides message blocks: settings, read results, statistics."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from opentalos.model.errors import TalosError
from opentalos.model.message import BaseOffset, Durability, OffsetRange, StoredBlock

# Called exactly once, from the loop, never inside ``append``: base offset (a ``StoredBefore`` for a
# duplicate; -1: unknown duplicate or error) and None, which means durable, or the error.
AppendWaiter = Callable[[BaseOffset, TalosError | None], None]

OFFSET_START = -1  # read from the start of the retained log
OFFSET_END = -2  # read only what arrives later


@dataclass(frozen=True, slots=True)
class TopicLogSettings:
    """What the log must know of a topic."""

    topic_uuid: str
    durability: Durability
    retention_s: float
    retention_bytes: int | None = None  # per partition; None: no bound
    # A minute of metering; retention waits until usage events tell of a message. 0: not metered.
    minute_ms: int = 0
    reports_kept: bool = False  # retention waits for a report, too: log/metering/kept.py
    uses_reserve: bool = False  # takes puts also while others are refused for want of space
    tenant: str = ""  # the owner; what it may hold of this server's memory and lanes is bounded


class ReadResult(NamedTuple):
    """Contiguous durable blocks; the first contains the offset asked for. Empty at the end.

    ``damage``: what follows ``range`` in the log cannot be read, and nobody knows how much it is.
    """

    blocks: list[StoredBlock]
    range: OffsetRange
    damage: TalosError | None = None


class PartitionStats(NamedTuple):
    """Amounts of one partition; bytes as stored, with the log's own headers."""

    retained_messages: int
    retained_bytes: int
    total_messages: int  # ever appended
    total_bytes: int  # ever appended
