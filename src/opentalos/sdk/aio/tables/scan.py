"""Pages of a scan: the request, the position of the next page, the pause when throttled."""

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

PAGE_ROWS: Final = 500  # requested per call; a server may return fewer
_DOUBLINGS_MAX: Final = 30  # of a pause; far beyond its upper limit


@dataclass(frozen=True, slots=True)
class ScanQuery:
    """The parameters of a scan."""

    start: Mapping[str, Given] = field(default_factory=dict)
    stop: Mapping[str, Given] = field(default_factory=dict)
    index: str | None = None
    columns: Sequence[str] = ()
    condition: str | None = None
    reverse: bool = False
    versions: bool = False  # include removed rows


class ScanPosition(NamedTuple):
    """Where a page starts, and how often the scan was throttled before it."""

    key: Any = None  # as returned by the server; None: the start of the scan
    throttled: int = 0  # consecutive throttled pages without a row
    waited_s: float = 0.0  # in total for these pages


class ScanPage(NamedTuple):
    """Rows, and where the next page starts; None: the end. ``versions``, if requested: per row
    its time, sequence number, and whether it is removed."""

    records: list[Row]
    following: ScanPosition | None
    versions: list[tuple[int, int, bool]]


def page_request(
    table: str, query: ScanQuery, limits: tuple[Columns, Columns], position: ScanPosition
) -> sds.ScanRequest:
    """The request for a page. ``limits``: typed start and stop."""
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
    """The versions of the rows of a page. Raises: NotSupported: the server returns none."""
    if not query.versions:
        return []
    lists = page.timestamps, page.sequences, page.removed
    count = len(page.records or ())
    if any(values is None or len(values) != count for values in lists):
        raise NotSupported(
            "scan with versions failed: this server does not return them; use an OpenTalos server"
        )
    return list(zip(*(values or () for values in lists), strict=True))


def following(page: sds.ScanResult, position: ScanPosition) -> ScanPosition | None:
    """Where the next page starts; ``position``: where this one started."""
    if not page.nextStartKey:
        return None
    if page.throttled and not page.records:
        return ScanPosition(page.nextStartKey, position.throttled + 1, position.waited_s)
    return ScanPosition(page.nextStartKey, int(bool(page.throttled)))


async def pause(config: ClientConfig, position: ScanPosition) -> ScanPosition:
    """Wait, with full jitter, if the previous page was throttled.

    Raises: ThrottleRejected: no row for ``deadline_s``.
    """
    if not position.throttled:
        return position
    if position.waited_s > config.deadline_s:
        raise ThrottleRejected(
            f"scan throttled: no row for {position.waited_s:.0f} s; raise the table's read capacity"
        )
    doublings = min(position.throttled - 1, _DOUBLINGS_MAX)
    pause_s = random.random() * min(config.backoff_s_max, config.backoff_s * float(1 << doublings))
    await asyncio.sleep(pause_s)
    return position._replace(waited_s=position.waited_s + pause_s)
