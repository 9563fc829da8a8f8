"""Stops a stream whose topic rejected puts for too long, if the table prefers a gap.

The gap is recorded in the table before any entry is dropped, so a follower always learns since when
changes are missing.
"""

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
    """Record a gap from the oldest waiting change on; False: nothing waits.

    Raises: Unavailable, OutcomeUnknown: nothing may be dropped yet.
    """
    stream = lane.stream
    topic = next((name for name, state in table.streams.items() if state.id == stream.id), None)
    if topic is None or not waiting:
        return False
    text = f"the topic rejected its changes: {lane.refusal}"
    gap_ms = min(entry.timestamp_ms for entry in waiting)
    await tables.change(table, lambda now: stopped_stream(now, topic, stream.id, gap_ms, text))
    _log.error("stream of table %s stopped: %s; missing_since_ms=%d", table.resource, text, gap_ms)
    return True


async def record_gaps(tables: TableCatalog, table: Table, dropped: Sequence[Entry]) -> None:
    """Extend the gaps of stopped streams to these changes, which may be older than what another
    shard knew when it stopped them.

    Raises: Unavailable, OutcomeUnknown: nothing may be dropped yet.
    """
    for topic, stream in table.streams.items():
        times = [entry.timestamp_ms for entry in dropped if entry.stream == stream.id]
        if stream.gap_ms is None or not times or min(times) >= stream.gap_ms:
            continue
        await tables.change(
            table, partial(stopped_stream, topic=topic, stream_id=stream.id, gap_ms=min(times))
        )
