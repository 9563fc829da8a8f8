"""A stream whose topic took nothing for too long, of a table that prefers a gap to refusals."""

import logging
from collections.abc import Sequence
from functools import partial

from opentalos.broker.tables.stream.outbox import Entry
from opentalos.broker.tables.stream.publish_lane import PublishLane
from opentalos.catalog.tables.table import Table, stopped_stream
from opentalos.catalog.tables.tables import TableCatalog

_log = logging.getLogger("opentalos.tables")


async def stop_stream(
    tables: TableCatalog, table: Table, lane: PublishLane, waiting: Sequence[Entry]
) -> bool:
    """Record that changes are missing from the first one on that waits; False: nothing waits.

    Raises: Unavailable, OutcomeUnknown: nothing may be dropped yet.
    """
    stream = lane.stream
    topic = next((name for name, one in table.streams.items() if one.id == stream.id), None)
    if topic is None or not waiting:
        return False
    text = f"the topic took nothing: {lane.refusal}"
    gap_ms = min(entry.timestamp_ms for entry in waiting)
    await tables.change(table, lambda now: stopped_stream(now, topic, stream.id, gap_ms, text))
    _log.error("table %s: %s; changes from %d on are missing", table.resource, text, gap_ms)
    return True


async def record_gaps(tables: TableCatalog, table: Table, dropped: Sequence[Entry]) -> None:
    """Streams that stopped lack these changes too, which may be older than what another shard
    knew when it stopped them.

    Raises: Unavailable, OutcomeUnknown: nothing may be dropped yet.
    """
    for topic, stream in table.streams.items():
        times = [entry.timestamp_ms for entry in dropped if entry.stream == stream.id]
        if stream.gap_ms is None or not times or min(times) >= stream.gap_ms:
            continue
        await tables.change(
            table, partial(stopped_stream, topic=topic, stream_id=stream.id, gap_ms=min(times))
        )
