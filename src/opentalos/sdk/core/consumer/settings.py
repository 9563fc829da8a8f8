"""How a TalosConsumer starts, commits, reads ahead and shares its group: its settings, what it
counts, and what it tells when partitions come and go."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from opentalos.model.errors import ConfigError
from opentalos.sdk.core.values import Position, Start

StartAt = Position | Mapping[int, int]  # one place for all partitions, or an offset for each
Told = Callable[[Sequence[int]], Awaitable[None] | None]  # takes partitions, in order


class Expired(Enum):
    """What becomes of a position that is not retained: expired, or behind a log's end that was
    cut."""

    FAIL = "fail"  # PositionExpired, until the application has called seek
    EARLIEST = "earliest"  # go on with the first retained record
    LATEST = "latest"  # go on with what is stored from now on


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """What the application wants to be told of partitions; an error in one ends the consumer.

    The asyncio consumer awaits what they return, in the event loop. The synchronous one calls them
    in the thread that iterates, so that they may block and use the consumer.
    """

    on_assigned: Told | None = None  # before their first record
    on_revoked: Told | None = None  # before their last commit, and before anybody else has them
    on_lost: Told | None = None  # the lease is gone: somebody else may have them already


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """Everything about a consumer but its topic and group; checked on construction.

    ``first_start`` counts for a partition that has no commit; until the first one, a restart looks
    at it anew. ``reset_to`` counts instead of the last commit when this consumer takes a partition
    for the first time; every worker that sets it resets for itself.

    Raises: ConfigError: a value is out of its range; the text names it.
    """

    first_start: StartAt = Start.EARLIEST
    reset_to: StartAt | None = None
    expired: Expired = Expired.FAIL
    # Commits of its own, and the last ones when partitions go. False: only ``commit`` commits.
    auto_commit: bool = True
    commit_interval_s: float = 5.0
    commit_records: int = 10_000  # of one partition, looked at after each fetched batch
    # Short intervals make balance quicker and cost calls.
    # Source: docs/protocol/consumers.md#life-of-a-worker.
    renew_interval_s: float = 7.0
    check_workers_interval_s: float = 10.0
    check_partitions_interval_s: float = 60.0
    lease_s: float = 30.0  # as the server grants it; without a renewal for so long all is lost
    # A partition is given up only after the application has asked for the next record or batch,
    # or after this time; what is not done by then is delivered once more, to its next holder.
    revoke_wait_s: float = 10.0
    # What is asked for at once of one partition; blocks come whole, so there may be more.
    fetch_records: int = 10_000
    fetch_bytes: int = 2 << 20
    fetches_max: int = 32  # under way at once, at most half of ClientConfig.connections_max
    # Read ahead, as stored (compressed). A fetch that is under way counts as ``fetch_bytes``.
    prefetch_bytes: int = 64 << 20
    prefetch_records: int = 500_000
    partition_prefetch_bytes: int = 8 << 20
    partition_prefetch_records: int = 100_000
    worker_prefix: str = "opentalos-"  # of the worker's id, as groups show it

    def __post_init__(self) -> None:
        for start in (self.first_start, self.reset_to):
            if isinstance(start, datetime) and start.tzinfo is None:
                raise ConfigError("a time to start at needs a zone, such as datetime.now(UTC)")
        numbers = (
            "commit_interval_s", "commit_records", "renew_interval_s", "check_workers_interval_s",
            "check_partitions_interval_s", "lease_s", "fetch_records", "fetch_bytes",
            "fetches_max", "prefetch_bytes", "prefetch_records", "partition_prefetch_bytes",
            "partition_prefetch_records",
        )  # fmt: skip
        for name in numbers:
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be above 0")
        if self.revoke_wait_s < 0:
            raise ConfigError("revoke_wait_s must not be below 0")
        if self.renew_interval_s >= self.lease_s:
            raise ConfigError("renew_interval_s must be below lease_s, or every lease runs out")
        if self.prefetch_bytes < self.fetch_bytes:
            raise ConfigError("prefetch_bytes must be at least fetch_bytes")


@dataclass(slots=True)
class ConsumerCounters:
    """What a consumer did since its start."""

    records: int = 0  # handed out, and more was asked for
    fetches: int = 0  # answered
    fetches_failed: int = 0  # and tried again
    commits: int = 0
    commits_failed: int = 0  # refused, or without an answer
    positions_expired: int = 0  # also those that the policy repaired
    partitions_taken: int = 0
    partitions_revoked: int = 0
    partitions_lost: int = 0
