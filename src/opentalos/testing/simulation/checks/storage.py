"""Checks of the storage itself: bounded work, answers in time, fair shares, no silent cut (I1, I3).

What a history has to keep is in its ``settings`` note: ``answer_s`` (a caller waits no longer),
``fair_s`` (nor does a tenant beside one that fails), ``isolates`` (only puts that are ``poisonous``
may be refused as not served), ``retention`` (times are the true ones),
``clock_wrong_s`` (clocks may be wrong by so much and count as right).
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.checks.view.log_view import LogView, blocks_of, deleted_topics
from opentalos.testing.simulation.checks.view.reached import Reached
from opentalos.testing.simulation.history import History, Operation

OPENINGS_MIN = 40  # of a partition without an acknowledged put in between, whatever happened
OPENINGS_PER_PUT = 5.0  # and for each put that was sent meanwhile
OPENINGS_PER_S = 0.1  # and for upkeep
EARLY_S = 1.5  # of a deletion: clocks of servers differ, and a log is dropped in steps
SYNCED, FLUSHED = "synced", "flushed"
ALL = -1  # of a deletion: everything there is
LOST = "crashed"  # in the error of a call whose server did not live
NOT_SERVED = "PartitionNotServing"


def livelocks(history: History) -> Iterator[Anomaly]:
    """A partition is opened again and again although hardly anybody wants it."""
    openings: dict[tuple[str, int], list[float]] = defaultdict(list)
    for note in history.noted("opening"):
        openings[note.args["topic"], note.args["partition"]].append(note.at_s)
    sent: dict[tuple[str, int], list[float]] = defaultdict(list)
    acked: dict[tuple[str, int], list[float]] = defaultdict(list)
    for put in history.of("put"):
        key = (_uuid(put), put.args["partition"])
        sent[key].append(put.began_s)
        if put.ok:
            acked[key].append(put.ended_s)
    tables = {_uuid(read): read.args["table"] for read in history.of("changes", "mark")}
    mutations = history.of("mutate")
    for key, times in openings.items():
        for mutation in mutations:  # it is a put into the streams of its table
            if mutation.args["table"] == tables.get(key[0]):
                sent[key].append(mutation.began_s)
                if mutation.ok:
                    acked[key].append(mutation.ended_s)
        sent[key].sort()
        edges = [float("-inf"), *sorted(acked[key]), float("inf")]
        for began_s, ended_s in pairwise(edges):
            between = times[bisect_right(times, began_s) : bisect_left(times, ended_s)]
            count = len(between)
            if count <= OPENINGS_MIN:
                continue
            puts = bisect_left(sent[key], ended_s) - bisect_right(sent[key], began_s)
            explained = OPENINGS_PER_PUT * puts + OPENINGS_PER_S * (between[-1] - between[0])
            if count > OPENINGS_MIN + explained:
                yield Anomaly(
                    "livelock",
                    f"{key[0]}/{key[1]}: {count} openings and {puts} puts between "
                    f"{began_s:.3f} and {ended_s:.3f}, none acknowledged",
                )


def never_answered(history: History) -> Iterator[Anomaly]:
    """A caller waited longer than ``answer_s`` although its server lived and was not paused."""
    answer_s = _setting(history, "answer_s")
    if answer_s is None:
        return
    pauses = _pauses(history)
    for put in history.of("put"):
        if put.ended_s == float("inf") or LOST in put.error:
            continue
        waited_s = put.ended_s - put.began_s
        for began_s, ended_s in pauses.get(put.args.get("server", ""), ()):
            waited_s -= max(0.0, min(put.ended_s, ended_s) - max(put.began_s, began_s))
        if waited_s > answer_s:
            yield Anomaly("never-answered", f"{waited_s:.3f} s without a reply: {put}")


def unfair_tenants(history: History) -> Iterator[Anomaly]:
    """A tenant without faults waited longer than ``fair_s``, or was refused, beside one with."""
    fair_s = _setting(history, "fair_s")
    if fair_s is None:
        return
    fails = history.noted("tenant-fails")
    for put in history.of("put"):
        tenant = put.args.get("tenant")
        if tenant is None or put.ended_s == float("inf") or put.args.get("granted") is False:
            continue
        beside = any(
            note.args["tenant"] != tenant
            and put.began_s < note.args["until_s"]
            and put.ended_s > note.at_s
            for note in fails
        )
        if beside and not (put.ok and put.ended_s - put.began_s <= fair_s):
            yield Anomaly("unfair-tenant", f"{put.ended_s - put.began_s:.3f} s: {put}")


def refused_for_others(history: History) -> Iterator[Anomaly]:
    """A put that storage takes was refused because of another one that it never takes."""
    if not _setting(history, "isolates"):
        return
    deleted = deleted_topics(history)
    for put in history.of("put"):
        innocent = not put.args.get("poisonous") and put.args["topic"] not in deleted
        if innocent and put.error.startswith(NOT_SERVED):
            yield Anomaly("refused-for-another", str(put))


def too_many_files(history: History) -> Iterator[Anomaly]:
    """A server with late segments had more files of synced segments open than it may."""
    for note in history.noted("too-many-files"):
        yield Anomaly("too-many-files", f"{note.args['count']} at {note.at_s:.3f}: {note}")


def silent_cuts(view: LogView) -> Iterator[Anomaly]:
    """An offset that was acknowledged or read is used again, with no truncation reported."""
    if view.truncated:
        return
    used: dict[int, set[str]] = defaultdict(set)
    for message_id, put in view.acked_ids():
        if "offset" in put.result and message_id == put.args["ids"][0]:
            used[int(put.result["offset"])].add(message_id)
    for offset, found in view.at.items():
        used[offset].update(each for each in found if each is not None)
    for offset, known in used.items():
        if len(known) > 1:
            shown = ", ".join(sorted(known))
            yield Anomaly("silent-cut", f"{view.describe()}: {offset} was used for {shown}")
    if view.final is not None:
        known_next = Reached(view).before(view.final.began_s)
        if view.final_next < known_next and not view.damaged:
            text = f"ends at {view.final_next}, it had reached {known_next}"
            yield Anomaly("silent-cut", f"{view.describe()}: {text}")


def broken_syncs(history: History) -> Iterator[Anomaly]:
    """A message that was acknowledged while its topic was synced is gone.

    Only of topics whose durability was changed: views of these are split at each power loss.
    """
    finals = {
        (read.args["topic"], read.args["partition"]): read
        for read in history.of("read")
        if read.ok and read.args.get("final")
    }
    for topic, changes in _durabilities(history).items():
        for put in history.of("put"):
            if put.args["topic"] != topic or not put.ok or "offset" not in put.result:
                continue
            final = finals.get((topic, put.args["partition"]))
            offset = int(put.result["offset"])
            if final is None or offset < int(final.result["start"]):
                continue
            if not _surely_synced(changes, put.began_s, put.ended_s):
                continue
            stored = {
                base + index: each
                for base, ids in blocks_of(final)
                for index, each in enumerate(ids)
            }
            if stored.get(offset) != put.args["ids"][0]:
                yield Anomaly("lost-write", f"acknowledged as synced: {put}")
                yield Anomaly("silent-cut", f"{offset} has {stored.get(offset)} now: {put}")


def premature_deletions(history: History) -> Iterator[Anomaly]:
    """Retention by age dropped a message before its time, by the true clock.

    A message is as old as the first attempt to store it, however late its last reply is.
    """
    if not _setting(history, "retention") or _slightly_wrong(history):
        return
    began: dict[tuple[str, int, str], float] = {}
    for put in history.of("put"):
        if put.args["ids"]:
            key = (put.args["topic"], put.args["partition"], put.args["ids"][0])
            began[key] = min(put.began_s, began.get(key, put.began_s))
    deleted = deleted_topics(history)
    for note in history.noted("topic"):
        topic, retention_s = note.args["topic"], note.args.get("retention_s")
        by_size = note.args.get("retention_bytes") is not None
        if retention_s is None or by_size or topic in deleted:
            continue
        changes = [
            change
            for change in history.of("alter")
            if change.args["topic"] == topic and change.may_be_done and "retention_s" in change.args
        ]
        replies = [
            each
            for each in history.of("range", "read")
            if each.ok and each.args["topic"] == topic and "start" in each.result
        ]
        trims = [each for each in history.of("trim") if each.args["topic"] == topic]
        for put in history.of("put"):
            if put.args["topic"] == topic and put.ok and "offset" in put.result:
                began_s = began[topic, put.args["partition"], put.args["ids"][0]]
                kept = [each for each in replies if not _deleted(put, each, trims)]
                yield from _dropped_early(put, began_s, (retention_s, changes), kept)


def _slightly_wrong(history: History) -> bool:
    """Whether a clock jumped by so little that it still counts as right."""
    wrong_ms = 1_000 * (_setting(history, "clock_wrong_s") or 0)
    return any(0 < abs(note.args["by_ms"]) <= wrong_ms for note in history.noted("clock-jump"))


def _deleted(put: Operation, reply: Operation, trims: list[Operation]) -> bool:
    """Whether a deletion may have removed the message before the reply."""
    return any(
        trim.may_be_done
        and trim.args["partition"] == put.args["partition"]
        and trim.began_s < reply.ended_s
        and (trim.args["offset"] > int(put.result["offset"]) or trim.args["offset"] == ALL)
        for trim in trims
    )


def _dropped_early(
    put: Operation,
    began_s: float,
    retention: tuple[float, list[Operation]],
    replies: list[Operation],
) -> Iterator[Anomaly]:
    retention_s, changes = retention
    for reply in replies:
        if reply.args["partition"] != put.args["partition"]:
            continue
        if int(reply.result["start"]) <= int(put.result["offset"]):
            continue
        least_s = min(
            [retention_s]
            + [each.args["retention_s"] for each in changes if each.began_s < reply.ended_s]
        )
        if reply.ended_s < began_s + least_s - EARLY_S:
            aged_s = reply.ended_s - began_s
            yield Anomaly("premature-deletion", f"dropped after {aged_s:.3f} of {least_s} s: {put}")
            return


def _durabilities(history: History) -> dict[str, list[tuple[float, float, str]]]:
    """Of changed topics: from when on each durability may be, and surely is, in force."""
    found: dict[str, list[tuple[float, float, str]]] = {}
    for change in history.of("alter"):
        if "durability" in change.args and change.may_be_done:
            sure_s = change.ended_s if change.ok else float("inf")
            times = found.setdefault(change.args["topic"], [])
            times.append((change.began_s, sure_s, change.args["durability"]))
    for note in history.noted("topic"):
        if note.args["topic"] in found:
            first = (note.at_s, note.at_s, note.args["durability"])
            found[note.args["topic"]].insert(0, first)
    return found


def _surely_synced(changes: list[tuple[float, float, str]], began_s: float, end_s: float) -> bool:
    certain = [change for change in changes if change[1] <= began_s]
    if not certain or certain[-1][2] != SYNCED:
        return False
    since_s = certain[-1][0]
    return not any(
        durability == FLUSHED and may_s < end_s and not sure_s < since_s
        for may_s, sure_s, durability in changes
    )


def _setting(history: History, name: str) -> Any:
    notes = history.noted("settings")
    return notes[0].args.get(name) if notes else None


def _pauses(history: History) -> dict[str, list[tuple[float, float]]]:
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    began: dict[str, float] = {}
    for note in history.notes:
        server = note.args.get("server", "")
        if note.kind == "pause":
            began[server] = note.at_s
        elif note.kind == "resume" and server in began:
            found[server].append((began.pop(server), note.at_s))
    return found


def _uuid(operation: Operation) -> str:
    return str(operation.args["topic"]).rsplit("#", 1)[-1]
