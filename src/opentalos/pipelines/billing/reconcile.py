"""Reconciles a server or cluster: every partition's log with the table "usage" (promise I9).

Used by ``talos bill reconcile`` and by programs (``reconcile``). ``partition_reconciliation``
compares one partition.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from opentalos.model.errors import TopicNotExist
from opentalos.model.names import uuid_of
from opentalos.pipelines.billing.partition_reconciliation import (
    LogUsage,
    PartitionResult,
    compare_chain,
    compare_deleted,
    compare_kept,
    compare_minutes,
    complete_minutes,
)
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.metering.chain_bucket import Bucket, Chain, Pair
from opentalos.pipelines.metering.kept_lake import KeptStarts, kept_starts_of
from opentalos.pipelines.metering.usage_chains import Floor, UsageChains
from opentalos.pipelines.metering.usage_lake import MinuteUse, next_offsets
from opentalos.pipelines.metering.usage_table import LAYOUT
from opentalos.sdk.core.config import ClientConfig, split_key, split_urls
from opentalos.sdk.rest_client import RestClient

POLL_S: Final = 1.0  # between two polls of the table
PAGES_MAX: Final = 1_000_000  # of one partition
_MINUTE: Final = itemgetter(*MinuteUse._fields)

_Place = tuple[str, int]  # uuid of a topic, partition
Show = Callable[[int, int], None]  # partitions done, and how many there are


@dataclass(slots=True)
class Reconciliation:
    """All partitions; ``late``: those that were not metered within the waiting time."""

    partitions: list[PartitionResult] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    reports: int = 0  # partitions of the logs with a report of what is kept

    @property
    def differing(self) -> list[PartitionResult]:
        """Partitions with any deviation."""
        return [result for result in self.partitions if result.differs]

    @property
    def difference(self) -> int:
        """Deviations in records plus those in bytes; the bill is right if it is 0."""
        return sum(
            result.difference_records + result.difference_bytes for result in self.partitions
        )

    @property
    def pending(self) -> int:
        """Records of the logs that the table does not have yet."""
        return sum(result.pending for result in self.partitions)


def _nothing(_done: int, _total: int) -> None:
    """For callers that show nothing."""


def reconcile(
    url: str,
    key: str,
    home: Path,
    *,
    lake: str = "",
    wait_s: float = 0.0,
    topics: Sequence[str] = (),
) -> Reconciliation:
    """Reconcile the logs of a server or cluster with the table below ``home`` or a lake.

    Args:   url: http://HOST:PORT, several separated by commas; key: KEYID:SECRET of an
            administrator; lake: as metering has it; wait_s: maximum time to wait until the table
            has what the logs have now; topics: names or uuids of topics; empty: all.
    Raises: Unavailable, RequestError: from the server or the lake.
    """
    key_id, secret = split_key(key, "key")
    config = ClientConfig(endpoints=split_urls(url), key_id=key_id, secret=secret)
    usage, kept = pipeline_table(home, lake, LAYOUT), kept_starts_of(home, lake)
    return reconcile_with(RestClient(config), usage, kept=kept, wait_s=wait_s, topics=topics)


def reconcile_with(
    call: RestClient,
    usage: LakeTable,
    *,
    kept: KeptStarts | None = None,
    wait_s: float = 0.0,
    topics: Sequence[str] = (),
    show: Show = _nothing,
) -> Reconciliation:
    """``reconcile`` with an existing client; ``kept``: of ``kept_starts_of``."""
    found = _reconcile(call, usage, topics, show)
    if wait_s and found.pending:
        late = _wait(partial(next_offsets, usage, topics), _ends(found), wait_s, show)
        found = _reconcile(call, usage, topics, show)
        found.late = late
    for result in found.partitions:
        start = None if kept is None else kept.get((result.topic, result.partition))
        if start is not None and not result.deleted:
            found.reports += 1
            compare_kept(result, start)
    return found


def _reconcile(
    call: RestClient, usage: LakeTable, topics: Sequence[str], show: Show
) -> Reconciliation:
    logs = _Logs(call, topics, show)
    found, deleted = Reconciliation(), list[PartitionResult]()
    with UsageChains(usage, topics=topics, floors=logs.floors) as chains:
        # The first bucket comes when all rows are read, so they cannot be ahead of the logs.
        for bucket in chains.buckets():
            for result in _compared(bucket, logs, topics):
                (deleted if result.deleted else found.partitions).append(result)
    for place in logs.left():
        if (log := logs.take(place)) is not None:
            empty = Chain(0, log.topic, log.partition, log.name, 0, 0, 0, iter(()))
            result = compare_chain(log, empty)
            compare_minutes(result, 0, (Pair(item, None) for item in complete_minutes(log, empty)))
            found.partitions.append(result)
    found.partitions.sort(key=lambda result: logs.numbers[result.topic, result.partition])
    found.partitions += sorted(deleted, key=lambda result: (result.topic, result.partition))
    for wanted in topics:
        if not any(_is(wanted, result) for result in found.partitions):
            raise TopicNotExist(f"topic {wanted} does not exist, and it has no metered usage")
    return found


class _Logs:
    """The logs of all partitions; each is read at most once.

    ``floors``: where they begin, for ``UsageChains``; ``numbers``: their order for the result.
    """

    def __init__(self, call: RestClient, topics: Sequence[str], show: Show) -> None:
        self._call, self._show = call, show
        self._resources: dict[_Place, str] = {}  # of those that were not read
        self.floors: dict[_Place, Floor] = {}
        for resource, place, floor in _places(call, topics):
            self._resources[place] = resource
            if floor is not None:
                self.floors[place] = floor
        self.numbers = {place: number for number, place in enumerate(self._resources)}

    def left(self) -> list[_Place]:
        """Those that were not read."""
        return list(self._resources)

    def take(self, place: _Place) -> LogUsage | None:
        """Read a log; None: there is none, or its topic was deleted meanwhile."""
        if place not in self._resources:
            return None
        total = len(self.numbers)
        self._show(total - len(self._resources), total)
        try:
            return log_usage(self._call, self._resources.pop(place), place[1])
        except TopicNotExist:
            return None


def _compared(bucket: Bucket, logs: _Logs, topics: Sequence[str]) -> Iterator[PartitionResult]:
    """The results for the partitions of a bucket."""
    compared: dict[int, PartitionResult] = {}
    for chain in bucket.chains():
        log = logs.take((chain.topic, chain.partition))
        if log is not None:
            compared[chain.place] = compare_chain(log, chain)
            bucket.add(chain.place, complete_minutes(log, chain))
        elif not topics or {chain.name, chain.topic} & set(topics):
            yield compare_deleted(chain)
    for difference in bucket.differences():
        result = compared[difference.place]
        compare_minutes(result, difference.equal, difference.pairs)
        yield result


def _is(wanted: str, result: PartitionResult) -> bool:
    return wanted in (result.name, result.topic, f"{result.tenant}/{result.name}")


def _places(call: RestClient, topics: Sequence[str]) -> Iterator[tuple[str, _Place, Floor | None]]:
    """Resource name, place and begin of the logs of all partitions that ever existed."""
    for topic in call("GET", "topics", query={"scope": "visible"})["topics"]:
        resource = str(topic["resource"])
        uuid = uuid_of(resource)
        if topics and not {topic["name"], f"{topic['owner']}/{topic['name']}", uuid} & set(topics):
            continue
        first = _page(call, resource, 0, 0, 1)
        yield resource, (uuid, 0), _floor(first)
        for partition in range(1, first["partitions"]):
            try:
                floor = _floor(_page(call, resource, partition, 0, 1))
            except TopicNotExist:
                floor = None  # deleted meanwhile
            yield resource, (uuid, partition), floor


def _floor(page: dict[str, Any]) -> Floor:
    minutes = page["minutes"]
    return Floor(minutes[0]["minute_ms"] if minutes else None, page["start_offset"])


def log_usage(call: RestClient, resource: str, partition: int) -> LogUsage:
    """The usage of a partition from its log, page by page. Raises: the server's errors."""
    minutes: list[MinuteUse] = []
    offset: int | None = 0
    page: dict[str, Any] = {}
    for _ in range(PAGES_MAX):
        assert offset is not None
        page = _page(call, resource, partition, offset)
        for minute in page["minutes"]:
            _add(minutes, MinuteUse._make(_MINUTE(minute)))
        offset = page["next_page"]
        if offset is None:
            break
    fields = ("topic", "name", "tenant", "partition", "start_offset", "next_offset",
              "metered_offset", "metered_since", "total_bytes")  # fmt: skip
    return LogUsage(minutes=minutes, **{name: page[name] for name in fields})


def _page(
    call: RestClient, resource: str, partition: int, offset: int, minutes_max: int | None = None
) -> dict[str, Any]:
    query: dict[str, object] = {"partition": partition, "offset": offset}
    if minutes_max is not None:
        query["minutes_max"] = minutes_max
    found: dict[str, Any] = call("GET", f"topics/{quote(resource, safe='')}/usage", query=query)
    return found


def _add(minutes: list[MinuteUse], part: MinuteUse) -> None:
    """Append a minute; a page may end within a minute that the next page continues."""
    last = minutes[-1] if minutes else None
    if last is None or last.minute_ms != part.minute_ms:
        minutes.append(part)
        return
    minutes[-1] = MinuteUse(
        last.minute_ms,
        last.records + part.records,
        last.bytes + part.bytes,
        last.first_offset,
        part.next_offset,
    )


def _ends(found: Reconciliation) -> dict[tuple[str, int], tuple[str, int]]:
    """The offsets to wait for: name and next offset, by topic uuid and partition."""
    return {
        (result.topic, result.partition): (f"{result.name}/{result.partition}", result.next_offset)
        for result in found.partitions
        if result.pending
    }


def _wait(
    stored: Callable[[], dict[tuple[str, int], int]],
    wanted: dict[tuple[str, int], tuple[str, int]],
    wait_s: float,
    show: Show,
) -> list[str]:
    """Wait until the table has all offsets; returns what it lacks after ``wait_s``."""
    deadline = time.monotonic() + wait_s
    while True:
        have = stored()
        lacking = [name for key, (name, end) in wanted.items() if have.get(key, 0) < end]
        show(len(wanted) - len(lacking), len(wanted))
        if not lacking or time.monotonic() > deadline:
            return lacking
        time.sleep(POLL_S)
