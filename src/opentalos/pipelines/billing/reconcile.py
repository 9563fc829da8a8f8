"""Reconciles a server or cluster: every partition's log with the table "usage" (promise I9).

Used by ``talos bill reconcile`` and by programs (``reconcile``). ``partition_reconciliation``
compares one partition.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from opentalos.model.errors import TopicNotExist
from opentalos.model.names import uuid_of
from opentalos.pipelines.billing.partition_reconciliation import (
    LogUsage,
    PartitionResult,
    compare,
    compare_deleted,
    compare_kept,
)
from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.metering.kept_lake import KeptStarts, kept_starts_of
from opentalos.pipelines.metering.usage_lake import MinuteUse, UsageLake, next_offsets
from opentalos.pipelines.metering.usage_table import LAYOUT
from opentalos.sdk.core.config import ClientConfig, split_key, split_urls
from opentalos.sdk.rest_client import RestClient

POLL_S: Final = 1.0  # between two polls of the table
PAGES_MAX: Final = 1_000_000  # of one partition
_MINUTE: Final = MinuteUse._fields

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
    found, deleted, numbers = Reconciliation(), list[PartitionResult](), dict[_Place, int]()
    places = {
        (uuid, partition): (number, resource)
        for number, (resource, uuid, partition) in enumerate(_places(call, topics))
    }
    total = len(places)

    def against_log(place: _Place, rows: Sequence[MinuteUse]) -> bool:
        """Whether there is a log to compare with; a topic may be deleted meanwhile."""
        if place not in places:
            return False
        show(total - len(places), total)
        number, resource = places.pop(place)
        try:
            log = log_usage(call, resource, place[1])
        except TopicNotExist:
            return False
        numbers[place] = number
        found.partitions.append(compare(log, rows))
        return True

    with UsageLake(usage, topics=topics) as lake:
        # The first chain comes when all rows are copied, so they cannot be ahead of the logs.
        for chain in lake.chains():
            place = (chain.topic, chain.partition)
            ours = not topics or bool({chain.name, chain.topic} & set(topics))
            if not against_log(place, chain.minutes) and ours:
                deleted.append(compare_deleted(place, chain.name, chain.minutes))
    for place in list(places):
        against_log(place, [])
    found.partitions.sort(key=lambda result: numbers[result.topic, result.partition])
    found.partitions += sorted(deleted, key=lambda result: (result.topic, result.partition))
    for wanted in topics:
        if not any(_is(wanted, result) for result in found.partitions):
            raise TopicNotExist(f"topic {wanted} does not exist, and it has no metered usage")
    return found


def _is(wanted: str, result: PartitionResult) -> bool:
    return wanted in (result.name, result.topic, f"{result.tenant}/{result.name}")


def _places(call: RestClient, topics: Sequence[str]) -> Iterator[tuple[str, str, int]]:
    """Resource name, uuid and number of all partitions that ever existed."""
    for topic in call("GET", "topics", query={"scope": "visible"})["topics"]:
        resource = str(topic["resource"])
        uuid = uuid_of(resource)
        if topics and not {topic["name"], f"{topic['owner']}/{topic['name']}", uuid} & set(topics):
            continue
        first = _page(call, resource, 0, 0, 1)
        for partition in range(first["partitions"]):
            yield resource, uuid, partition


def log_usage(call: RestClient, resource: str, partition: int) -> LogUsage:
    """The usage of a partition from its log, page by page. Raises: the server's errors."""
    minutes: list[MinuteUse] = []
    offset: int | None = 0
    page: dict[str, Any] = {}
    for _ in range(PAGES_MAX):
        assert offset is not None
        page = _page(call, resource, partition, offset)
        for minute in page["minutes"]:
            _add(minutes, MinuteUse(*(minute[name] for name in _MINUTE)))
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
