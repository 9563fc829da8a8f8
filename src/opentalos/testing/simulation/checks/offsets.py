"""Checks of offsets: dense, never reused, never going back, and honest answers about them."""

from collections.abc import Iterator
from itertools import pairwise

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.checks.view.log_view import LogView, blocks_of, retained_after
from opentalos.testing.simulation.checks.view.reached import Reached
from opentalos.testing.simulation.history import History, Operation

OUT_OF_RANGE = "OffsetOutOfRange"  # start of the error text of such a refusal
CORRUPT = "CorruptLog"


def inconsistent_offsets(view: LogView) -> Iterator[Anomaly]:
    """Two different messages were seen at one offset, or one elsewhere than its put was told."""
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
                    f"{view.describe()}: {other} and {message_id} were acked at one offset",
                )
            yield from _not_where_told(view, put)


def _not_where_told(view: LogView, put: Operation) -> Iterator[Anomaly]:
    offset, message_id = int(put.result["offset"]), put.args["ids"][0]
    known = [seen for seen in view.at.get(offset, ()) if seen is not None]
    if known and message_id not in known:
        text = f"{view.describe()} at {offset}: {known}, but its answer was {put}"
        yield Anomaly("inconsistent-offsets", text)


def offset_gaps(view: LogView) -> Iterator[Anomaly]:
    """An answer, or the final log, misses an offset in its middle."""
    for read in view.reads:
        if read.action == "poll":
            continue  # deliveries of a consumer may span several answers
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
                    f"{view.final_next}), but [{reached[0]}, {reached[1]}) could be read",
                )


def polls(view: LogView) -> Iterator[Anomaly]:
    """A consumer was given offsets again, or not at all, within one session."""
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
                    "nonmonotonic-poll", f"{view.describe()}: {expected} was next: {read}"
                )
        else:
            expected = int(read.args["offset"])
            if 0 <= expected and last <= expected:
                yield Anomaly(
                    "nonmonotonic-poll", f"{view.describe()}: {expected} was asked: {read}"
                )
        if 0 <= expected < base and retained_after(view, base - 1, read.ended_s):
            yield Anomaly("poll-skip", f"{view.describe()}: {expected} was next: {read}")


def false_out_of_range(view: LogView) -> Iterator[Anomaly]:
    """A read was refused as out of range though the log had the offset, or it was the next one.

    Not judged: a damaged log, which cannot know its last blocks.
    """
    if view.rotten:
        return
    reached = Reached(view)
    for read in view.refused:
        offset = int(read.args.get("offset", -1))
        if not read.error.startswith(OUT_OF_RANGE) or offset < 0:
            continue
        known = reached.before(read.began_s)
        if offset <= known and retained_after(view, offset, read.ended_s):
            yield Anomaly("false-out-of-range", f"{view.describe()}: {read}")


def unreadable(view: LogView) -> Iterator[Anomaly]:
    """A read was refused as corrupt though no stored bit was flipped."""
    if view.rotten:
        return
    for read in view.refused:
        if read.error.startswith(CORRUPT):
            yield Anomaly("unreadable", f"{view.describe()}: {read}")


def going_back(view: LogView) -> Iterator[Anomaly]:
    """The start or next offset, as answered, went back."""
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
            yield Anomaly("start-offset-went-back", f"{view.describe()}: it was {start}: {each}")
        known = reached.before(each.began_s)
        if int(each.result["next"]) < known and not view.rotten:
            yield Anomaly("next-offset-went-back", f"{view.describe()}: it was {known}: {each}")


def stale_reads(view: LogView) -> Iterator[Anomaly]:
    """A server answered 'nothing yet' at an offset that it had served or acknowledged before."""
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
            yield Anomaly("stale-read", f"{view.describe()}: next was {known}: {read}")


def times_going_back(view: LogView) -> Iterator[Anomaly]:
    """A block of the final log was appended, by its own time, before the one in front of it."""
    times = view.final.result.get("times", ()) if view.final is not None else ()
    for (_, before_ms), (offset, append_ms) in pairwise(times):
        if append_ms < before_ms:
            yield Anomaly(
                "append-time-went-back", f"{view.describe()} at {offset}: {append_ms} < {before_ms}"
            )


def wrong_lookups(history: History) -> Iterator[Anomaly]:
    """A time was looked up in a quiet log and another offset was told than the log has.

    ``start`` is the log's behind the lookup: what retention has dropped by then is not found.
    """
    for lookup in history.of("lookup"):
        expected = lookup.args["expected"]
        if lookup.ok and expected is not None:
            kept = max(expected, lookup.result.get("start", expected))
            if lookup.result["offset"] != kept:
                yield Anomaly("wrong-lookup", str(lookup))
