"""Pages of a scan: what is asked for, where the next one begins, and how long to wait for it."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from opentalos.model.datum import Columns
from opentalos.model.errors import NotSupported, ThrottleRejected
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.table.values import Given, Row
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import columns_to

PAGE_ROWS: Final = 500  # asked for in one call; a server may give fewer
_DOUBLINGS_MAX: Final = 30  # of a pause; its bound is reached long before


@dataclass(frozen=True, slots=True)
class ScanQuery:
    """What a scan was called with."""

    start: Mapping[str, Given] = field(default_factory=dict)
    stop: Mapping[str, Given] = field(default_factory=dict)
    index: str | None = None
    columns: Sequence[str] = ()
    condition: str | None = None
    reverse: bool = False
    versions: bool = False  # also of removed records


class ScanPosition(NamedTuple):
    """Where a page begins, and how the pages before it fared."""

    key: Any = None  # as the server gave it; None: the scan's start
    throttled: int = 0  # pages in a row that the rate left without a record
    waited_s: float = 0.0  # for them together


class ScanPage(NamedTuple):
    """Some records, and where the next page begins; None: there is none. ``versions``: if they
    were asked for, of each record: time, number, whether it is removed."""

    records: list[Row]
    following: ScanPosition | None
    versions: list[tuple[int, int, bool]]


def page_request(
    table: str, query: ScanQuery, limits: tuple[Columns, Columns], position: ScanPosition
) -> sds.ScanRequest:
    """The call for a page. ``limits``: start and stop with their types."""
    start, stop = (columns_to(key) or None for key in limits)
    return sds.ScanRequest(
        tableName=table,
        indexName=query.index,
        startKey=position.key or start,
        stopKey=stop,
        attributes=list(query.columns) or None,
        condition=query.condition,
        limit=PAGE_ROWS,
        reverse=query.reverse,
        withVersions=query.versions or None,
    )


def versions_of(page: sds.ScanResult, query: ScanQuery) -> list[tuple[int, int, bool]]:
    """The versions of a page's records. Raises: NotSupported: the server does not tell them."""
    if not query.versions:
        return []
    lists = page.timestamps, page.sequences, page.removed
    count = len(page.records or ())
    if any(values is None or len(values) != count for values in lists):
        raise NotSupported("scans of this server do not tell when records were changed")
    return list(zip(*(values or () for values in lists), strict=True))


def following(page: sds.ScanResult, position: ScanPosition) -> ScanPosition | None:
    """Where the page after this one begins; ``position``: where this one did."""
    if not page.nextStartKey:
        return None
    if page.throttled and not page.records:
        return ScanPosition(page.nextStartKey, position.throttled + 1, position.waited_s)
    return ScanPosition(page.nextStartKey, int(bool(page.throttled)))


async def pause(config: ClientConfig, position: ScanPosition) -> ScanPosition:
    """Wait before a page if the rate cut the one before it short; with full jitter.

    Raises: ThrottleRejected: it let no record through for ``deadline_s``.
    """
    if not position.throttled:
        return position
    if position.waited_s > config.deadline_s:
        raise ThrottleRejected(
            f"the table's rate let the scan no further for {position.waited_s:.0f} s"
        )
    doublings = min(position.throttled - 1, _DOUBLINGS_MAX)
    pause_s = random.random() * min(config.backoff_s_max, config.backoff_s * float(1 << doublings))
    await asyncio.sleep(pause_s)
    return position._replace(waited_s=position.waited_s + pause_s)
