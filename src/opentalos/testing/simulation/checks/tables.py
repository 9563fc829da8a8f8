"""Checks of structured tables: no write is lost, and streams tell each change once and in order.

A change is explained by a mutation of its row with the same content. The unit of content is what
was written, added or removed; workloads that write something else each time get exact answers,
since then each change has one mutation and each mutation one place in its row's order.
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
        return  # what expires is judged by what the streams lead to
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
            yield f"{name} is {held!r}, {value!r} was written"
    if mutation.args["operation"] == "remove":
        attribute = mutation.args.get("attribute")
        there = row is not None and (not attribute or attribute in row)
        if there and all(other.args["operation"] == "remove" for other in later):
            yield f"{attribute or 'the row'} is there, though removed"


def _written(mutation: Operation) -> Values:
    """Values that the row has right after an acknowledged mutation."""
    if mutation.args["operation"] == "put":
        columns: Values = mutation.args["columns"]
        return columns
    amounts: Values = mutation.result.get("amounts", {})
    return amounts if mutation.args["operation"] == "increment" else {}


def _may_leave(mutation: Operation, name: str, held: object) -> bool:
    """Whether the column may be as it is because of the mutation; None: it is not there."""
    args = mutation.args
    if args["operation"] == "remove":
        return held is None and args.get("attribute") in (None, "", name)
    if name in args.get("amounts", ()):
        return held is not None
    return held is not None and args.get("columns", {}).get(name) == held


def table_differs(table: TableView) -> Iterator[Anomaly]:
    """A stream, played from its beginning, leads to other rows than the table has.

    The images of one stream must also be what the log of another leads to, change by change.
    """
    logs = [stream for stream in table.streams if stream.whole and stream.view == MUTATE_LOG]
    images = [stream for stream in table.streams if stream.whole and stream.view == RECORD_IMAGE]
    for key in table.keys:
        ends = [(log.topic, steps[-1].after if (steps := log.steps(key)) else None) for log in logs]
        ends += [(stream.topic, _last_image(stream, key)) for stream in images]
        expired, sure = _expired(table, [*logs, *images], key)
        for topic, end in ends if sure else ():
            end = None if expired else end
            if table.rows is not None and table.rows.get(key) != end:
                yield Anomaly(
                    "table-differs",
                    f"{table.name} {key}: {topic} leads to {end}, the table has "
                    f"{table.rows.get(key)}",
                )
        for log in logs:
            for stream in images:
                yield from _images_differ(table, key, log, stream)


def _expired(table: TableView, streams: list[StreamView], key: str) -> tuple[bool, bool]:
    """Whether a row was gone when the table was scanned, and whether that is sure."""
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
    for change, _, after in log.steps(key):
        other = shown.get(change.sequence)
        if other is None:
            continue  # a missing one has its own name
        image = None if other.row_deleted else other.image
        if image != after:
            yield Anomaly(
                "table-differs", f"{table.name}: {change} makes {after}, its image is {image}"
            )


def row_inversions(table: TableView) -> Iterator[Anomaly]:
    """A row's later change was stored before an earlier one was, or in another partition.

    Nor may a change come before one that was acknowledged before it was sent.
    """
    for stream in table.streams:
        for key, delivered in stream.rows.items():
            text = f"{table.name} in {stream.topic}"
            if len({each.partition for each in delivered}) > 1:
                yield Anomaly("cdc-row-inversion", f"{text}: {key} lies in two partitions")
            for before, after in pairwise(in_order(stream, table, key)):
                if after.sequence < before.sequence:
                    yield Anomaly("cdc-row-inversion", f"{text}: {before} before {after}")
            for before_op, after_op in _against_time(stream, key, table.mutations.get(key, [])):
                yield Anomaly("cdc-row-inversion", f"{text}: {before_op} before {after_op}")


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
                        f"{table.name} in {stream.topic}: {firsts[after]} has "
                        f"{firsts[after].timestamp_ms} after {firsts[before].timestamp_ms}",
                    )


def resends_differ(table: TableView) -> Iterator[Anomaly]:
    """A change is told again, or in another stream, as another change."""
    times: dict[tuple[str, int], tuple[int, str]] = {}
    for stream in table.streams:
        for key, delivered in stream.rows.items():
            firsts = stream.firsts(key)
            for each in delivered:
                first = firsts[each.sequence]
                if each.content != first.content:
                    yield Anomaly(
                        "resend-differs", f"{table.name} in {stream.topic}: {first}, then {each}"
                    )
            for sequence, change in firsts.items():
                known = times.setdefault((key, sequence), (change.timestamp_ms, stream.topic))
                if known[0] != change.timestamp_ms:
                    yield Anomaly(
                        "resend-differs",
                        f"{table.name}: {change} of {change.timestamp_ms} in {stream.topic}, of "
                        f"{known[0]} in {known[1]}",
                    )


def marks_too_early(table: TableView) -> Iterator[Anomaly]:
    """A change not later than a mark was stored only behind the mark's offsets."""
    if table.rivals:
        return
    for stream in table.streams:
        marks = [each for each in table.marks if each.args["topic"] == stream.topic]
        firsts = [change for key in stream.rows for change in in_order(stream, table, key)]
        for mark in marks:
            ends = dict(mark.result["offsets"])
            if stream.gap_ms is not None and stream.gap_ms <= mark.result["timestamp_ms"]:
                yield Anomaly(
                    "mark-too-early", f"{table.name}: its gap at {stream.gap_ms} is before {mark}"
                )
            for change in firsts:
                within = change.timestamp_ms <= mark.result["timestamp_ms"]
                if within and change.offset >= ends.get(change.partition, 0):
                    yield Anomaly(
                        "mark-too-early",
                        f"{table.name}: {change} of {change.timestamp_ms} is behind {mark}",
                    )


def index_differs(table: TableView) -> Iterator[Anomaly]:
    """A scan of an index gives other rows than the table has with a value of its column."""
    for scan in table.index_scans:
        column, told = scan.args["column"], dict(scan.result["rows"])
        rows = table.rows or {}
        held = {key: row for key, row in rows.items() if row.get(column) is not None}
        if table.ttl_ms:  # others may have expired between the scans, or by one server's clock only
            held = {key: row for key, row in held.items() if key in told}
            told = {key: row for key, row in told.items() if key in rows}
        if table.rows is not None and told != held:
            keys = sorted(key for key in {*told, *held} if told.get(key) != held.get(key))
            yield Anomaly(
                "index-differs",
                f"{table.name} by {scan.args['index']}: {keys[0]} is {told.get(keys[0])}, the "
                f"table has {held.get(keys[0])}",
            )
