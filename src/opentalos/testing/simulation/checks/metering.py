"""Checks of metering: the bill equals the log (promise I9).

Usage events, upserted by (topic, partition, minute) with the larger ``next_offset``, must report
exactly what was committed to each partition, minute by minute from its first message, without a
gap. They must report nothing else.

Egress, which the log cannot prove, is never billed twice: a killed server loses what it had not
written, so events may report less than was read. An event that comes again, known by its source and
number, must be the same one.
"""

import sys
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.checks.view.log_view import deleted_topics, rival_servers
from opentalos.testing.simulation.history import (
    History,
    PartitionName,
    flushed_topics,
    harmed_partitions,
)

SKEW_MS = 1_000  # clocks of servers differ by less, from each other and from the true time


class _Row(NamedTuple):
    """A minute: as stored in the log, or as reported by events."""

    first_offset: int
    next_offset: int
    minute_ms: int
    bytes: int


def meter_drift(history: History) -> Iterator[Anomaly]:
    """Events and log differ.

    Not judged: flushed topics after a power loss, which lose commits that may have been metered;
    partitions with a flipped bit; topics deleted at one of two stand-alone servers on one storage,
    since the other may create their logs again. For a deleted topic, and for a partition that no
    server had open at the end, the last minutes may be missing.
    """
    rows = _upserted(history)
    stored = _stored(history)
    deleted = {topic.rsplit("#", 1)[-1] for topic in deleted_topics(history)}
    lossy = flushed_topics(history) if history.noted("power-loss") else set()
    excused = {topic.rsplit("#", 1)[-1] for topic in lossy | _deleted_at_a_rival(history)}
    harmed = harmed_partitions(history)
    unsure = {
        PartitionName(note.args["topic"], note.args["partition"])
        for note in history.noted("stored-blocks")
        if not note.args["sure"]
    }
    if not stored or any(name.topic in _usage_topics(history) for name in harmed):
        return
    for name in sorted({*rows, *stored}):
        if name.topic in excused or name in harmed:
            continue
        reported, logged = sorted(rows.get(name, ())), stored.get(name, [])
        if reported == logged:
            continue
        if (name.topic in deleted or name in unsure) and _is_prefix(reported, logged):
            continue
        yield Anomaly(
            "meter-drift", f"{name.topic}/{name.partition}: {_difference(reported, logged)}"
        )


def _deleted_at_a_rival(history: History) -> set[str]:
    rivals = rival_servers(history)
    return {
        delete.args["topic"]
        for delete in history.of("delete")
        if delete.may_be_done and delete.args.get("server") in rivals
    }


def _is_prefix(reported: list[_Row], logged: list[_Row]) -> bool:
    """Whether the rows are the first ones of the log; the last may be a part of its minute."""
    if len(reported) > len(logged) or reported[:-1] != logged[: max(0, len(reported) - 1)]:
        return False
    if not reported:
        return True
    last, whole = reported[-1], logged[len(reported) - 1]
    same = (last.first_offset, last.minute_ms) == (whole.first_offset, whole.minute_ms)
    return same and last.next_offset <= whole.next_offset and last.bytes <= whole.bytes


def _difference(reported: list[_Row], logged: list[_Row]) -> str:
    for metered, stored in zip(reported, logged, strict=False):
        if metered != stored:
            return f"events report {metered}, the log has {stored}"
    if len(reported) > len(logged):
        return f"events report {reported[len(logged)]}, which the log never had"
    return f"no event reports {logged[len(reported)]}"


def _upserted(history: History) -> dict[PartitionName, list[_Row]]:
    table: dict[tuple[str, int, int], _Row] = {}
    for note in history.noted("usage-event"):
        args = note.args
        key = (args["topic"], args["partition"], args["minute_ms"])
        row = _Row(args["first_offset"], args["next_offset"], args["minute_ms"], args["bytes"])
        held = table.get(key)
        if held is None or row.next_offset > held.next_offset:
            table[key] = row
    found: dict[PartitionName, list[_Row]] = defaultdict(list)
    for (topic, partition, _), row in table.items():
        found[PartitionName(topic, partition)].append(row)
    return found


def _stored(history: History) -> dict[PartitionName, list[_Row]]:
    """Minutes of the committed blocks, computed independently of the server."""
    found: dict[PartitionName, list[_Row]] = {}
    for note in history.noted("stored-blocks"):
        unit_ms, rows = note.args["minute_ms"], list[_Row]()
        for base, messages, append_ms, payload_bytes in note.args["blocks"]:
            minute_ms = append_ms // unit_ms * unit_ms
            last = rows[-1] if rows else None
            if last is not None and last.minute_ms == minute_ms:
                rows[-1] = last._replace(
                    next_offset=base + messages, bytes=last.bytes + payload_bytes
                )
            else:
                rows.append(_Row(base, base + messages, minute_ms, payload_bytes))
        found[PartitionName(note.args["topic"], note.args["partition"])] = rows
    return found


def _usage_topics(history: History) -> set[str]:
    return {note.args["topic"] for note in history.noted("usage-topic")}


_Reading = tuple[str, str]  # topic uuid, reader


def egress_drift(history: History) -> Iterator[Anomaly]:
    """Events report more bytes of a topic and reader than were read, or contradict each other."""
    events: dict[tuple[str, int], dict[str, Any]] = {}
    for note in history.noted("egress-event"):
        key = note.args["source"], note.args["number"]
        if events.setdefault(key, dict(note.args)) != note.args:
            yield Anomaly("egress-drift", f"event {key} is {note.args} and {events[key]}")
    reported, read = Counter[_Reading](), Counter[_Reading]()
    for event in events.values():
        reported[event["topic"], event["reader"]] += event["bytes"]
    for note in history.noted("read"):
        read[note.args["topic"], note.args["reader"]] += note.args["bytes"]
    for place in sorted(reported):
        if reported[place] > read[place]:
            text = f"events of topic {place[0]} report {reported[place]} bytes read by {place[1]}"
            yield Anomaly("egress-drift", f"{text}, but there were {read[place]}")


class _Moved(NamedTuple):
    start: int
    at_ms: int  # the true time at which a manifest had it first


def kept_drift(history: History) -> Iterator[Anomaly]:
    """Reports of what is kept and manifests differ.

    A report says that the messages from an offset on were kept at a time. Manifests say when the
    start offset moved: no report may be wrong by more than servers' clocks differ, and what
    retention by age dropped was reported until it was that old, or until a client began to delete
    it. Not judged: clocks that jump, and damage to the reports.
    """
    reports = _reports(history)
    usage = {note.args["topic"] for note in history.noted("usage-topic")}
    if history.noted("clock-jump") or any(
        name.topic in usage for name in harmed_partitions(history)
    ):
        return
    moves = _moves(history)
    for name, found in sorted(reports.items()):
        yield from _said_too_much(name, found, moves.get(name, []))
    if reports:
        yield from _said_too_little(history, reports, moves)


def _said_too_much(
    name: PartitionName, reports: list[_Moved], moves: list[_Moved]
) -> Iterator[Anomaly]:
    for report in reports:
        gone = next((move for move in moves if move.start > report.start), None)
        if gone is not None and report.at_ms > gone.at_ms + SKEW_MS:
            late_ms = report.at_ms - gone.at_ms
            text = f"says that offset {report.start} was kept {late_ms} ms after it was dropped"
            yield Anomaly("kept-drift", f"a report of {name.topic}/{name.partition} {text}")


def _said_too_little(
    history: History,
    reports: dict[PartitionName, list[_Moved]],
    moves: dict[PartitionName, list[_Moved]],
) -> Iterator[Anomaly]:
    retention_ms, deletions = _retention_ms(history), _deletions(history)
    for note in history.noted("stored-blocks"):
        name = PartitionName(note.args["topic"], note.args["partition"])
        least_ms, unit_ms = retention_ms.get(name.topic), note.args["minute_ms"]
        if least_ms is None:
            continue
        ends = [base + messages for base, messages, _, _ in note.args["blocks"]]
        start = 0
        for move in moves.get(name, []):
            last = bisect_left(ends, move.start)
            if last < len(ends) and ends[last] == move.start:
                deleted_ms = [
                    deletion.at_ms
                    for deletion in deletions.get(name, [])
                    if deletion.start >= move.start and deletion.at_ms <= move.at_ms
                ]
                due_ms = min([note.args["blocks"][last][2] + least_ms, *deleted_ms])
                said_ms = max(
                    (each.at_ms for each in reports.get(name, []) if each.start <= start),
                    default=0,
                )
                if said_ms + unit_ms + SKEW_MS < due_ms:
                    text = f"{name.topic}/{name.partition} dropped offsets {start} to {move.start}"
                    short = f"reported until {said_ms}, but kept until {due_ms} at least"
                    yield Anomaly("kept-drift", f"{text}, {short}")
            start = move.start


def _deletions(history: History) -> dict[PartitionName, list[_Moved]]:
    """When a client began to delete beginnings of logs, and up to which offset at most."""
    found: dict[PartitionName, list[_Moved]] = defaultdict(list)
    for note in history.noted("moved-start")[:1]:
        began_ms = note.args["at_ms"] - note.at_s * 1_000  # of the history
        for trim in history.of("trim"):
            if not trim.may_be_done:
                continue
            everything = trim.args["offset"] < 0
            offset = sys.maxsize if everything else trim.args["offset"]
            start = trim.result["start"] if trim.ok else offset
            name = PartitionName(trim.args["topic"].rsplit("#", 1)[-1], trim.args["partition"])
            found[name].append(_Moved(start, round(began_ms + trim.began_s * 1_000)))
    return found


def _retention_ms(history: History) -> dict[str, int]:
    """The shortest retention that each topic ever had, of those that only age limits."""
    unjudged = set(deleted_topics(history)) | (
        flushed_topics(history) if history.noted("power-loss") else set()
    )
    found: dict[str, int] = {}
    for note in history.noted("topic"):
        resource, seconds = note.args["topic"], note.args.get("retention_s")
        if seconds is None or note.args.get("retention_bytes") or resource in unjudged:
            continue
        changes = [
            each.args["retention_s"]
            for each in history.of("alter")
            if each.args["topic"] == resource and "retention_s" in each.args
        ]
        found[resource.rsplit("#", 1)[-1]] = int(min(seconds, *changes, seconds) * 1_000)
    return found


def _reports(history: History) -> dict[PartitionName, list[_Moved]]:
    found: dict[PartitionName, list[_Moved]] = defaultdict(list)
    for note in history.noted("kept-event"):
        name = PartitionName(note.args["topic"], note.args["partition"])
        found[name].append(_Moved(note.args["start_offset"], note.args["minute_ms"]))
    return found


def _moves(history: History) -> dict[PartitionName, list[_Moved]]:
    found: dict[PartitionName, list[_Moved]] = defaultdict(list)
    for note in history.noted("moved-start"):
        name = PartitionName(note.args["topic"], note.args["partition"])
        found[name].append(_Moved(note.args["start"], note.args["at_ms"]))
    return found
