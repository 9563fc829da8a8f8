"""Removes pending cells of streams that a table no longer has.

While a table has a stream, the owners of its shards do this. After its last stream was disabled
only the sweep, which calls this, finds the cells that were not published then.
"""

from collections.abc import Callable, Sequence

from opentalos.broker.tables.api.values import Table
from opentalos.broker.tables.row_tables import rows_of
from opentalos.broker.tables.stream.pending_format import stream_of
from opentalos.model.errors import CorruptLog
from opentalos.ports.row_store import FamilyName, Row, RowMutation, RowStore


async def remove_dead_cells(
    rows: RowStore, table: Table, part: tuple[bytes, bytes], limit: int, token: Callable[[], bytes]
) -> int:
    """Remove them from the rows of one part of a table without streams, at most ``limit`` rows.

    A row goes by compare-and-set, and a number that the record has not given yet is of a stream
    that this server does not know of: so no change of a stream enabled meanwhile is lost.

    Args:    part: first key, and the one to stop before; token: makes ids of writes.
    Returns: rows that were cleared.
    Raises:  Unavailable, OutcomeUnknown: harmless.
    """
    if table.streams:
        return 0
    name = rows_of(table)
    found = await rows.scan(name, *part, limit=limit, family=FamilyName.PENDING)
    dead = [(row, _dead(row, table)) for row in found]
    mutations = [
        RowMutation(
            key=row.key,
            expected=row.version,
            write_id=token(),
            pending=dict.fromkeys(columns),
        )
        for row, columns in dead
        if columns
    ]
    outcomes = await rows.mutate_many(name, mutations) if mutations else ()
    return sum(isinstance(outcome, int) for outcome in outcomes)


def _dead(row: Row, table: Table) -> Sequence[bytes]:
    found = []
    for column in row.cells:
        try:
            if stream_of(column) < table.next_stream_id:
                found.append(column)
        except CorruptLog:  # the next reader of the row reports it
            continue
    return found
