"""Checks of offsets: dense, never reused, never decreasing, with correct replies (promise I3).

A log whose end nobody knows must say so: whoever believes a smaller end loses its position, or
believes that nothing is left to read. What a server reported that it left out is not judged: views
of such a partition are split there (``view.log_view``).
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.checks.view.log_view import (
    LogView,
    blocks_of,
    deleted_topics,
    retained_after,
)
from opentalos.testing.simulation.checks.view.reached import Reached
from opentalos.testing.simulation.history import CORRUPT, History, Operation, PartitionName

NEVER_S = float("-inf")
OUT_OF_RANGE = "OffsetOutOfRange"  # prefix of the error text of such a rejection


def inconsistent_offsets(view: LogView) -> Iterator[Anomaly]:
    """Two different messages at one offset, or a message not at the offset of its ack."""
    for offset, found in view.at.items():
        known = [message_id for message_id in found if message_id is not None]
        if len(known) > 1:
            shown = ", ".join(f"{each} (#{found[each].number})" for each in known)
            yield Anomaly("inconsistent-offsets", f"{view.describe()} at {offset}: {shown}")
    acked: dict[int, str] = {}
    for message_id, put in view.acked_ids():
        if "offset" in put.result and message_id == put.args["ids"][0]:
            other = acked.setdefault(int(put.result["offset"]), message_id)
            if other != message_id:
                yield Anomaly(
                    "inconsistent-offsets",
                    f"{view.describe()}: {other} and {message_id} were acked at the same offset",
                )
            yield from _not_where_acked(view, put)


def _not_where_acked(view: LogView, put: Operation) -> Iterator[Anomaly]:
    offset, message_id = int(put.result["offset"]), put.args["ids"][0]
    known = [seen for seen in view.at.get(offset, ()) if seen is not None]
    if known and message_id not in known:
        text = f"{view.describe()} at {offset}: {known} is stored, but another was acked: {put}"
        yield Anomaly("inconsistent-offsets", text)


def offset_gaps(view: LogView) -> Iterator[Anomaly]:
    """A reply, or the final log, has no message at an offset in its middle."""
    for read in view.reads:
        if read.action == "poll":
            continue  # deliveries to a consumer may span several replies
        following: int | None = None
        for base, ids in blocks_of(read):
            if following is not None and base != following:
                yield Anomaly("offset-gap", f"{view.describe()}: {following} is missing in {read}")
            following = base + len(ids)
        if read is view.final:
            blocks = blocks_of(read)
            reached = (blocks[0][0], following) if blocks else (view.final_start,) * 2
            if reached[0] > view.final_start or reached[1] != view.final_next:
                yield Anomaly(
                    "offset-gap",
                    f"{view.describe()}: the final log is [{view.final_start}, "
                    f"{view.final_next}), but only [{reached[0]}, {reached[1]}) could be read",
                )


def polls(view: LogView) -> Iterator[Anomaly]:
    """A consumer received offsets again, or skipped some, within one session."""
    following: dict[tuple[str, object], int] = {}
    for read in view.reads:
        blocks = blocks_of(read)
        if not blocks:
            continue
        base, last = blocks[0][0], blocks[-1][0] + len(blocks[-1][1])
        if read.action == "poll":
            session = (read.process, read.args.get("session"))
            expected = following.get(session, base)
            following[session] = last
            if base < expected:
                yield Anomaly(
                    "nonmonotonic-poll", f"{view.describe()}: expected {expected} next: {read}"
                )
        else:
            expected = int(read.args["offset"])
            if 0 <= expected and last <= expected:
                yield Anomaly(
                    "nonmonotonic-poll", f"{view.describe()}: requested {expected}: {read}"
                )
        if 0 <= expected < base and retained_after(view, base - 1, read.ended_s):
            yield Anomaly("poll-skip", f"{view.describe()}: expected {expected} next: {read}")


def false_out_of_range(view: LogView) -> Iterator[Anomaly]:
    """A read was rejected as out of range although the log had the offset, or it was the next one.

    Not judged: a damaged log, which cannot know its last blocks.
    """
    if view.harmed:
        return
    reached = Reached(view)
    for read in view.refused:
        offset = int(read.args.get("offset", -1))
        if not read.error.startswith(OUT_OF_RANGE) or offset < 0:
            continue
        known = reached.before(read.began_s)
        if offset <= known and retained_after(view, offset, read.ended_s):
            text = f"{view.describe()}: the log had offset {offset}, its next was {known}: {read}"
            yield Anomaly("false-out-of-range", text)


def unreadable(view: LogView) -> Iterator[Anomaly]:
    """A read was rejected as corrupt although no stored bit was flipped."""
    if view.harmed:
        return
    for read in view.refused:
        if read.error.startswith(CORRUPT):
            yield Anomaly("unreadable", f"{view.describe()}: no stored bit was flipped: {read}")


def going_back(view: LogView) -> Iterator[Anomaly]:
    """The start or next offset in the replies decreased, or the next one is below the start."""
    ranges = sorted(
        [*view.ranges, *([view.final] if view.final else [])], key=lambda each: each.began_s
    )
    ended = sorted(ranges, key=lambda each: each.ended_s)
    reached = Reached(view)
    start, at = 0, 0
    for each in ranges:
        while at < len(ended) and ended[at].ended_s < each.began_s:
            start = max(start, int(ended[at].result["start"]))
            at += 1
        if int(each.result["start"]) < start:
            text = f"{view.describe()}: the start was {start} before: {each}"
            yield Anomaly("start-offset-went-back", text)
        known = max(reached.before(each.began_s), int(each.result["start"]))
        if int(each.result["next"]) < known and not view.harmed:
            text = f"{view.describe()}: the next offset was {known} before: {each}"
            yield Anomaly("next-offset-went-back", text)


def stale_reads(view: LogView) -> Iterator[Anomaly]:
    """A server returned no message at an offset that it had served or acknowledged before."""
    by_server: dict[object, Reached] = {}
    for read in view.reads:
        server = read.args.get("server")
        if read.action != "read" or blocks_of(read) or server is None:
            continue
        offset = int(read.args["offset"])
        if offset < 0:
            continue
        if server not in by_server:
            by_server[server] = Reached(view, server)
        known = by_server[server].before(read.began_s)
        if offset < known:
            text = f"{view.describe()}: the server's next offset was {known} before: {read}"
            yield Anomaly("stale-read", text)


def times_going_back(view: LogView) -> Iterator[Anomaly]:
    """A block of the final log has an append time before that of the preceding block."""
    times = view.final.result.get("times", ()) if view.final is not None else ()
    for (_, before_ms), (offset, append_ms) in pairwise(times):
        if append_ms < before_ms:
            yield Anomaly(
                "append-time-went-back",
                f"{view.describe()} at {offset}: appended at {append_ms}, the block before at "
                f"{before_ms}",
            )


def lost_floors(history: History) -> Iterator[Anomaly]:
    """A log began before what a deletion had promised, also after a crash or at another server."""
    deleted = deleted_topics(history)
    replies = defaultdict[PartitionName, list[Operation]](list)
    for each in history.of("trim", "range", "read"):
        if each.ok and "start" in each.result:
            replies[_place(each)].append(each)
    for place, floors in _floors(history).items():
        gone = deleted.get(place.topic)
        for reply in replies[place]:
            floor = floors.before(reply.began_s)
            outdated = gone is not None and reply.ended_s > gone.began_s
            if int(reply.result["start"]) < floor and not outdated:
                text = f"all below {floor} was deleted before: {reply}"
                yield Anomaly("lost-floor", text)


def hidden_writes(history: History) -> Iterator[Anomaly]:
    """A message was stored where readers get nothing any more: its log was cut below what had been
    deleted before. A repetition may be answered with the offset of the first attempt."""
    floors = _floors(history)
    tries = Counter(each for put in history.of("put") for each in put.args["ids"])
    for put in history.of("put"):
        known = floors.get(_place(put))
        if known is None or not put.ok or "offset" not in put.result:
            continue
        again = put.args.get("idempotent") or any(tries[each] > 1 for each in put.args["ids"])
        floor = known.before(put.began_s)
        if int(put.result["offset"]) < floor and not again:
            yield Anomaly("hidden-write", f"all below {floor} was deleted before: {put}")


def deleted_reads(history: History) -> Iterator[Anomaly]:
    """A reader got a message that a deletion, which was acknowledged before, had removed.

    A stand-alone server must know of its own deletions, and of those from before its start. Servers
    of a cluster pass calls on, so only reads once all is quiet are judged.
    """
    started = {note.args.get("server"): note.at_s for note in history.noted("started")}
    deleted, cluster = deleted_topics(history), bool(history.noted("assigned"))
    floors = _floors(history)
    for read in history.of("read"):
        known = floors.get(_place(read))
        if known is None or not read.ok or read.args.get("final") or _place(read).topic in deleted:
            continue
        server, offset = read.args.get("server"), int(read.args["offset"])
        if read.args.get("quiet"):
            floor = known.before(read.began_s)
        elif cluster:
            continue
        else:
            floor = known.at_server(server, started.get(server, NEVER_S), read.began_s)
        for base, ids in blocks_of(read):
            if base + len(ids) <= floor or 0 <= offset < floor:
                yield Anomaly("deleted-read", f"all below {floor} was deleted before: {read}")
                break


class _Floors(list[Operation]):
    """The acknowledged deletions of a partition."""

    def before(self, time_s: float) -> int:
        """The first offset that may be there at a time."""
        return max((int(each.result["start"]) for each in self if each.ended_s < time_s), default=0)

    def at_server(self, server: object, started_s: float, time_s: float) -> int:
        """The same, as far as one server must know it."""
        starts = [
            int(each.result["start"])
            for each in self
            if each.ended_s < time_s
            and (each.args.get("server") == server or each.ended_s < started_s < time_s)
        ]
        return max(starts, default=0)


def _floors(history: History) -> dict[PartitionName, _Floors]:
    found: dict[PartitionName, _Floors] = defaultdict(_Floors)
    for trim in history.of("trim"):
        if trim.ok:
            found[_place(trim)].append(trim)
    return dict(found)


def _place(operation: Operation) -> PartitionName:
    return PartitionName(operation.args["topic"], operation.args["partition"])


def wrong_lookups(history: History) -> Iterator[Anomaly]:
    """The offset returned for a time is not the one that the quiet log has.

    ``start`` is the log's start after the lookup: messages that had expired are not found.
    """
    for lookup in history.of("lookup"):
        expected = lookup.args["expected"]
        if lookup.ok and expected is not None:
            kept = max(expected, lookup.result.get("start", expected))
            if lookup.result["offset"] != kept:
                yield Anomaly("wrong-lookup", f"expected {kept}: {lookup}")


def looks_empty(view: LogView) -> Iterator[Anomaly]:
    """A damaged log answered that it ends before what had been acknowledged or read by then.

    Logs that are not damaged are judged by others: ``next-offset-went-back``, ``stale-read``. A
    server beside a rival, which both own all, may not have heard yet of what that one added.
    """
    if not view.harmed:
        return
    reached = Reached(view)
    for operation in (*view.ranges, *view.reads, *view.refused, *view.ends):
        end = _end_by(view, operation)
        known = reached.before(operation.began_s)
        if end is not None and end < known and operation.args.get("server") not in view.rivals:
            text = f"{view.describe()} had reached {known}, it ends at {end} by {operation}"
            yield Anomaly("looks-empty", text)


def _end_by(view: LogView, operation: Operation) -> int | None:
    """Where the log ends at most according to a reply; None: it says nothing about that."""
    if not operation.ok:
        asked = int(operation.args.get("offset", -1))
        if asked < 0 or not operation.error.startswith(OUT_OF_RANGE):
            return None
        kept = view.keeps or retained_after(view, asked, operation.ended_s)
        return asked if kept else None
    if "next" in operation.result:
        return int(operation.result["next"])
    blocks, behind = blocks_of(operation), operation.result.get("behind")
    if blocks:
        return None if behind is None else blocks[-1][0] + len(blocks[-1][1]) + int(behind)
    asked = int(operation.args.get("offset", -1))
    return asked if operation.action == "read" and asked >= 0 else None


def offsets_given_twice(view: LogView) -> Iterator[Anomaly]:
    """Puts of two messages were acknowledged with the same offset, with no cut reported between."""
    if view.truncated:
        return
    first: dict[int, tuple[str, Operation]] = {}
    puts = {id(put): put for puts in view.attempts.values() for put in puts if _inside(view, put)}
    for put in sorted(puts.values(), key=lambda each: each.ended_s):
        message_id = put.args["ids"][0]
        known, earlier = first.setdefault(int(put.result["offset"]), (message_id, put))
        if known != message_id:
            text = f"{view.describe()}: {known} has it by {earlier}, and then: {put}"
            yield Anomaly("offset-given-twice", text)


def _inside(view: LogView, put: Operation) -> bool:
    return (
        put.ok
        and "offset" in put.result
        and view.began_s <= put.began_s
        and put.ended_s <= view.ended_s
    )
