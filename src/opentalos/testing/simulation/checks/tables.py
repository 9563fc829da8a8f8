"""Checks of structured tables: no write is lost, streams have each change once and in order.

A change is explained by a mutation of its row with the same content: what was written, added or
removed. Workloads that write different content each time get exact results, since each change
then matches one mutation, and each mutation one position in its row's order.
"""

from collections.abc import Iterator
from itertools import pairwise

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.checks.view.table_view import (
    MUTATE_LOG,
    RECORD_IMAGE,
    State,
    StreamView,
    TableView,
    Values,
    acked,
    ended_s,
    in_order,
    matched,
    may_be_done,
)
from opentalos.testing.simulation.history import Operation


def lost_row_writes(table: TableView) -> Iterator[Anomaly]:
    """An acknowledged write that nothing can have replaced is not in the table."""
    if table.rows is None or table.ttl_ms:
        return  # rows that expire are judged by replaying the streams
    for key, mutations in table.mutations.items():
        row = table.rows.get(key)
        for mutation in mutations:
            if acked(mutation):
                for fault in _lost(mutation, mutations, row):
                    yield Anomaly("lost-row-write", f"{table.name} {key}: {fault} by {mutation}")


def _lost(mutation: Operation, all_of_row: list[Operation], row: State) -> Iterator[str]:
    later = [
        other
        for other in all_of_row
        if other is not mutation and may_be_done(other) and ended_s(other) >= mutation.began_s
    ]
    for name, value in _written(mutation).items():
        held = None if row is None else row.get(name)
        if held != value and not any(_may_leave(other, name, held) for other in later):
            yield f"{name} is {held!r}, but {value!r} was written"
    if mutation.args["operation"] == "remove":
        attribute = mutation.args.get("attribute")
        there = row is not None and (not attribute or attribute in row)
        if there and all(other.args["operation"] == "remove" for other in later):
            yield f"{attribute or 'the row'} exists although it was removed"


def _written(mutation: Operation) -> Values:
    """Values that the row has right after an acknowledged mutation."""
    if mutation.args["operation"] == "put":
        columns: Values = mutation.args["columns"]
        return columns
    amounts: Values = mutation.result.get("amounts", {})
    return amounts if mutation.args["operation"] == "increment" else {}


def _may_leave(mutation: Operation, name: str, held: object) -> bool:
    """Whether the mutation may have left the column as it is; None: the column is absent."""
    args = mutation.args
    if args["operation"] == "remove":
        return held is None and args.get("attribute") in (None, "", name)
    if name in args.get("amounts", ()):
        return held is not None
    return held is not None and args.get("columns", {}).get(name) == held


def table_differs(table: TableView) -> Iterator[Anomaly]:
    """A stream, replayed from its beginning, gives other rows than the table has.

    The images of one stream must also equal the replayed log of another, change by change.
    """
    logs = [stream for stream in table.streams if stream.whole and stream.view == MUTATE_LOG]
    images = [stream for stream in table.streams if stream.whole and stream.view == RECORD_IMAGE]
    for key in table.keys:
        ends = [
            (log.topic, found[-1].after if (found := log.transitions(key)) else None)
            for log in logs
        ]
        ends += [(stream.topic, _last_image(stream, key)) for stream in images]
        expired, sure = _expired(table, [*logs, *images], key)
        for topic, end in ends if sure else ():
            end = None if expired else end
            if table.rows is not None and table.rows.get(key) != end:
                yield Anomaly(
                    "table-differs",
                    f"{table.name} {key}: replaying {topic} gives {end}, the table has "
                    f"{table.rows.get(key)}",
                )
        for log in logs:
            for stream in images:
                yield from _images_differ(table, key, log, stream)


def _expired(table: TableView, streams: list[StreamView], key: str) -> tuple[bool, bool]:
    """Whether a row had expired when the table was scanned, and whether that is certain."""
    times = [each.timestamp_ms for stream in streams for each in stream.rows.get(key, ())]
    if not table.ttl_ms or not times:
        return False, True
    until_ms, (began_ms, ended_ms) = max(times) + table.ttl_ms, table.scanned_ms
    return until_ms <= began_ms, not began_ms < until_ms <= ended_ms


def _last_image(stream: StreamView, key: str) -> State:
    firsts = stream.firsts(key)
    if not firsts:
        return None
    last = firsts[max(firsts)]
    return None if last.row_deleted else last.image


def _images_differ(
    table: TableView, key: str, log: StreamView, images: StreamView
) -> Iterator[Anomaly]:
    shown = images.firsts(key)
    for change, _, after in log.transitions(key):
        other = shown.get(change.sequence)
        if other is None:
            continue  # a missing change is an anomaly of its own
        image = None if other.row_deleted else other.image
        if image != after:
            yield Anomaly(
                "table-differs", f"{table.name}: {change} gives {after}, but its image is {image}"
            )


def row_inversions(table: TableView) -> Iterator[Anomaly]:
    """A row's later change is stored before an earlier one, or in another partition.

    Nor may a change precede one that was acknowledged before it was sent.
    """
    for stream in table.streams:
        for key, delivered in stream.rows.items():
            text = f"{table.name} in {stream.topic}"
            if len({each.partition for each in delivered}) > 1:
                yield Anomaly("cdc-row-inversion", f"{text}: {key} is stored in two partitions")
            for before, after in pairwise(in_order(stream, table, key)):
                if after.sequence < before.sequence:
                    detail = f"{text}: {before} is stored before {after}"
                    yield Anomaly("cdc-row-inversion", detail)
            for before_op, after_op in _against_time(stream, key, table.mutations.get(key, [])):
                detail = f"{text}: {before_op} took effect before {after_op}"
                yield Anomaly("cdc-row-inversion", detail)


def _against_time(
    stream: StreamView, key: str, mutations: list[Operation]
) -> Iterator[tuple[Operation, Operation]]:
    latest: Operation | None = None
    made = matched(stream, key, mutations)
    for sequence in sorted(made):
        mutation = made[sequence]
        if latest is not None and ended_s(mutation) < latest.began_s:
            yield latest, mutation
        if latest is None or mutation.began_s > latest.began_s:
            latest = mutation


def timestamps_going_back(table: TableView) -> Iterator[Anomaly]:
    """A later change of a row does not have a later timestamp."""
    for stream in table.streams:
        for key in stream.rows:
            firsts = stream.firsts(key)
            for before, after in pairwise(sorted(firsts)):
                if firsts[after].timestamp_ms <= firsts[before].timestamp_ms:
                    yield Anomaly(
                        "timestamp-went-back",
                        f"{table.name} in {stream.topic}: {firsts[after]} has timestamp "
                        f"{firsts[after].timestamp_ms}, the change before it "
                        f"{firsts[before].timestamp_ms}",
                    )


def resends_differ(table: TableView) -> Iterator[Anomaly]:
    """A change was published again, or in another stream, with other content."""
    times: dict[tuple[str, int], tuple[int, str]] = {}
    for stream in table.streams:
        for key, delivered in stream.rows.items():
            firsts = stream.firsts(key)
            for each in delivered:
                first = firsts[each.sequence]
                if each.content != first.content:
                    yield Anomaly(
                        "resend-differs",
                        f"{table.name} in {stream.topic}: {first} was published again as {each}",
                    )
            for sequence, change in firsts.items():
                known = times.setdefault((key, sequence), (change.timestamp_ms, stream.topic))
                if known[0] != change.timestamp_ms:
                    yield Anomaly(
                        "resend-differs",
                        f"{table.name}: {change} has timestamp {change.timestamp_ms} in "
                        f"{stream.topic} and {known[0]} in {known[1]}",
                    )


def marks_too_early(table: TableView) -> Iterator[Anomaly]:
    """A change not later than a mark is stored only after the mark's offsets."""
    if table.rivals:
        return
    for stream in table.streams:
        marks = [each for each in table.marks if each.args["topic"] == stream.topic]
        firsts = [change for key in stream.rows for change in in_order(stream, table, key)]
        for mark in marks:
            ends = dict(mark.result["offsets"])
            if stream.gap_ms is not None and stream.gap_ms <= mark.result["timestamp_ms"]:
                yield Anomaly(
                    "mark-too-early", f"{table.name}: its gap at {stream.gap_ms} precedes {mark}"
                )
            for change in firsts:
                within = change.timestamp_ms <= mark.result["timestamp_ms"]
                if within and change.offset >= ends.get(change.partition, 0):
                    yield Anomaly(
                        "mark-too-early",
                        f"{table.name}: {change} of {change.timestamp_ms} is stored after {mark}",
                    )


def index_differs(table: TableView) -> Iterator[Anomaly]:
    """An index scan returned other rows than the table has with a value in the indexed column."""
    for scan in table.index_scans:
        column, indexed = scan.args["column"], dict(scan.result["rows"])
        rows = table.rows or {}
        held = {key: row for key, row in rows.items() if row.get(column) is not None}
        if table.ttl_ms:  # rows may expire between the scans, or by one server's clock only
            held = {key: row for key, row in held.items() if key in indexed}
            indexed = {key: row for key, row in indexed.items() if key in rows}
        if table.rows is not None and indexed != held:
            keys = sorted(key for key in {*indexed, *held} if indexed.get(key) != held.get(key))
            yield Anomaly(
                "index-differs",
                f"{table.name} by {scan.args['index']}: {keys[0]} is {indexed.get(keys[0])} in the "
                f"index and {held.get(keys[0])} in the table",
            )
