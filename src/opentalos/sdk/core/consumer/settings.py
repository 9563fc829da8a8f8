"""Settings, callbacks and counters of a TalosConsumer."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from opentalos.model.errors import ConfigError
from opentalos.sdk.core.values import Position, Start

StartAt = Position | Mapping[int, int]  # one position for all partitions, or an offset for each
PartitionCallback = Callable[[Sequence[int]], Awaitable[None] | None]  # partitions, ascending


class Expired(Enum):
    """What to do with a position outside the retained offsets (auto.offset.reset in Kafka)."""

    FAIL = "fail"  # raise PositionExpired until the application calls seek
    EARLIEST = "earliest"  # continue with the first retained record
    LATEST = "latest"  # continue with records stored from now on


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """Called when partitions are assigned or revoked; an error in a callback ends the consumer.

    The asyncio consumer awaits what a callback returns, in the event loop. The synchronous one
    calls it in the thread that iterates, so it may block and use the consumer.
    """

    on_assigned: PartitionCallback | None = None  # before the first record of the partitions
    # Before their last commit, and before another worker gets them.
    on_revoked: PartitionCallback | None = None
    # The lease is lost; another worker may own them already.
    on_lost: PartitionCallback | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """Settings of a consumer, apart from topic and group; checked on construction.

    ``first_start`` applies to partitions without a committed offset, at each restart until the
    first commit. ``reset_to`` overrides the committed offset when this consumer gets a partition
    for the first time; each worker that sets it resets its own partitions.

    Raises: ConfigError: a value is out of range; the text names it.
    """

    first_start: StartAt = Start.EARLIEST
    reset_to: StartAt | None = None
    expired: Expired = Expired.FAIL
    # Commit processed records in the background and when partitions are revoked.
    # False: only ``commit`` commits.
    auto_commit: bool = True
    commit_interval_s: float = 5.0
    commit_records: int = 10_000  # commit a partition early; checked after each fetched batch
    # Shorter intervals rebalance faster and cost more calls.
    # Source: docs/protocol/consumers.md#life-of-a-worker.
    renew_interval_s: float = 7.0
    check_workers_interval_s: float = 10.0
    check_partitions_interval_s: float = 60.0
    lease_s: float = 30.0  # as the server grants it; without a renewal in time, all is lost
    # A partition is released once the application asks for the next record or batch, or after
    # this time; records not processed by then are redelivered by the next owner.
    revoke_wait_s: float = 10.0
    # Limits of one fetch from one partition; blocks arrive whole, so it may return more.
    fetch_records: int = 10_000
    fetch_bytes: int = 2 << 20
    fetches_max: int = 32  # in flight, at most half of ClientConfig.connections_max
    # Prefetch limits, as stored (compressed). A fetch in flight counts as ``fetch_bytes``.
    prefetch_bytes: int = 64 << 20
    prefetch_records: int = 500_000
    partition_prefetch_bytes: int = 8 << 20
    partition_prefetch_records: int = 100_000
    worker_prefix: str = "opentalos-"  # of the worker id, as shown in the group

    def __post_init__(self) -> None:
        for start in (self.first_start, self.reset_to):
            if isinstance(start, datetime) and start.tzinfo is None:
                raise ConfigError(
                    "a start time needs a time zone; use for example datetime.now(UTC)"
                )
        numbers = (
            "commit_interval_s", "commit_records", "renew_interval_s", "check_workers_interval_s",
            "check_partitions_interval_s", "lease_s", "fetch_records", "fetch_bytes",
            "fetches_max", "prefetch_bytes", "prefetch_records", "partition_prefetch_bytes",
            "partition_prefetch_records",
        )  # fmt: skip
        for name in numbers:
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name} must be greater than 0")
        if self.revoke_wait_s < 0:
            raise ConfigError("revoke_wait_s must be 0 or more")
        if self.renew_interval_s >= self.lease_s:
            raise ConfigError("renew_interval_s must be less than lease_s, or every lease expires")
        if self.prefetch_bytes < self.fetch_bytes:
            raise ConfigError("prefetch_bytes must be at least fetch_bytes")


@dataclass(slots=True)
class ConsumerCounters:
    """Counters of a consumer since its start."""

    records: int = 0  # delivered, and followed by a request for more
    fetches: int = 0  # successful
    fetches_failed: int = 0  # failed and retried
    commits: int = 0
    commits_failed: int = 0  # rejected, or without a reply
    positions_expired: int = 0  # including those the policy reset
    partitions_taken: int = 0
    partitions_revoked: int = 0
    partitions_lost: int = 0
