"""Checks of metering: the bill equals the log.

Usage events, upserted by (topic, partition, minute) with the larger ``next_offset``, must tell of
each partition from its first message on, minute by minute and without a gap, exactly what was
committed. Nothing may be told of what never was.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

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
    """A minute: as the log has it, or as events tell."""

    first_offset: int
    next_offset: int
    minute_ms: int
    bytes: int


def meter_drift(history: History) -> Iterator[Anomaly]:
    """Events and log differ.

    Not judged: flushed topics after a power loss, which lose what was committed and maybe metered;
    partitions with a flipped bit; topics deleted at one of two lone servers on one storage, as the
    other may begin their logs anew. Of a deleted topic, and of a partition that no server had at
    the end, the last minutes may be missing.
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
        told, true = sorted(rows.get(name, ())), stored.get(name, [])
        if told == true:
            continue
        if (name.topic in deleted or name in unsure) and _is_begun(told, true):
            continue
        yield Anomaly("meter-drift", f"{name.topic}/{name.partition}: {_difference(told, true)}")


def _deleted_at_a_rival(history: History) -> set[str]:
    rivals = rival_servers(history)
    return {
        delete.args["topic"]
        for delete in history.of("delete")
        if delete.may_be_done and delete.args.get("server") in rivals
    }


def _is_begun(told: list[_Row], true: list[_Row]) -> bool:
    """Whether the rows are a true beginning; the last may be short of its minute."""
    if len(told) > len(true) or told[:-1] != true[: max(0, len(told) - 1)]:
        return False
    if not told:
        return True
    last, whole = told[-1], true[len(told) - 1]
    same = (last.first_offset, last.minute_ms) == (whole.first_offset, whole.minute_ms)
    return same and last.next_offset <= whole.next_offset and last.bytes <= whole.bytes


def _difference(told: list[_Row], true: list[_Row]) -> str:
    for one, other in zip(told, true, strict=False):
        if one != other:
            return f"events tell {one}, the log has {other}"
    if len(told) > len(true):
        return f"events tell {told[len(true)]}, which the log never had"
    return f"no event tells of {true[len(told)]}"


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
    """Minutes of the committed blocks, folded anew."""
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
