"""Checks of metering: the bill equals the log (promise I9).

Usage events, upserted by (topic, partition, minute) with the larger ``next_offset``, must report
exactly what was committed to each partition, minute by minute from its first message, without a
gap. They must report nothing else.

Egress, which the log cannot prove, is never billed twice: a killed server loses what it had not
written, so events may report less than was read. An event that comes again, known by its source and
number, must be the same one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.checks.view.log_view import (
    PartitionName,
    deleted_topics,
    flushed_topics,
    rival_servers,
    rotten_partitions,
)
from opentalos.testing.simulation.history import History


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
    rotten = rotten_partitions(history)
    unsure = {
        PartitionName(note.args["topic"], note.args["partition"])
        for note in history.noted("stored-blocks")
        if not note.args["sure"]
    }
    if not stored or any(name.topic in _usage_topics(history) for name in rotten):
        return
    for name in sorted({*rows, *stored}):
        if name.topic in excused or name in rotten:
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
