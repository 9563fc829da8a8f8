"""Checks of messages: none lost, invented, duplicated, reordered or damaged (I1, I4, I7)."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.checks.view.log_view import LogView
from opentalos.testing.simulation.checks.view.reached import Reached
from opentalos.testing.simulation.history import Operation


def lost_writes(view: LogView) -> Iterator[Anomaly]:
    """Acknowledged messages that are not in the final log although retention cannot explain it.

    Not judged: the end of a damaged log, which refuses puts since it cannot know its last messages.
    """
    if view.final is None:
        return
    start, following, final = view.final_start, view.final_next, _final_ids(view)
    unplaced: list[tuple[int, str]] = []  # (lowest possible offset, id) of messages never read
    reached = Reached(view)
    damaged = view.damaged
    for message_id, put in view.acked_ids():
        if damaged and _behind(view, message_id, put, following):
            continue
        places = view.places.get(message_id)
        if places is None:
            # An earlier attempt of unknown outcome may be the one that stored it.
            lowest = reached.before(_first_send(view.attempts[message_id]))
            if lowest >= start:
                yield Anomaly("lost-write", f"{view.describe()}: {message_id} acked by {put}")
            else:
                unplaced.append((lowest, message_id))
        elif not any(final.get(offset) == message_id for offset in places):
            if places[-1] >= start:
                yield Anomaly(
                    "lost-write",
                    f"{view.describe()}: {message_id} was at {places}, and the final log "
                    f"[{start}, {following}) does not have it; acked by {put}",
                )
    yield from _too_many_expired(view, unplaced, start)


def _behind(view: LogView, message_id: str, put: Operation, following: int) -> bool:
    """Whether a message was, or may have been, stored behind the readable part of a damaged log."""
    places = view.places.get(message_id)
    if places:
        return places[-1] >= following
    base = put.result.get("offset")
    return base is None or int(base) + put.args["ids"].index(message_id) >= following


def _too_many_expired(
    view: LogView, unplaced: list[tuple[int, str]], start: int
) -> Iterator[Anomaly]:
    # A message that no client read can only have been at an offset that expired unread.
    unplaced.sort(reverse=True)
    for count, (lowest, message_id) in enumerate(unplaced, 1):
        room = sum(1 for offset in range(lowest, start) if offset not in view.at)
        if count > room:
            yield Anomaly(
                "lost-write",
                f"{view.describe()}: {count} acked messages were never read, among them "
                f"{message_id}, but only {room} offsets from {lowest} to {start} expired unread",
            )
            return


def _final_ids(view: LogView) -> dict[int, str | None]:
    assert view.final is not None
    blocks: list[tuple[int, list[str | None]]] = view.final.result["blocks"]
    return {base + index: each for base, ids in blocks for index, each in enumerate(ids)}


def dirty_reads(view: LogView) -> Iterator[Anomaly]:
    """Messages that a consumer read and that are gone although retention cannot explain it."""
    if view.final is None:
        return
    start, following, final = view.final_start, view.final_next, _final_ids(view)
    known_until = following if view.damaged else float("inf")
    for offset, found in view.at.items():
        if offset >= known_until:
            continue
        for message_id, read in found.items():
            if offset >= start and message_id is not None and final.get(offset) != message_id:
                yield Anomaly(
                    "dirty-read",
                    f"{view.describe()}: {read.process} #{read.number} read {message_id} at "
                    f"{offset}, and the final log [{start}, {following}) has "
                    f"{final.get(offset)} there",
                )


def phantoms(view: LogView) -> Iterator[Anomaly]:
    """Messages that no client sent to this partition, or whose put was rejected."""
    for message_id, places in view.places.items():
        puts = view.attempts.get(message_id)
        if puts is None:
            text = f"{view.describe()}: {message_id} at {places} was never sent"
            yield Anomaly("phantom", text)
        elif not any(put.may_be_done for put in puts):
            read = view.at[places[0]][message_id]
            kind = "phantom" if read.args.get("final") else "aborted-read"
            yield Anomaly(
                kind, f"{view.describe()}: {message_id} at {places} was rejected: {puts[0]}"
            )
        elif min(put.began_s for put in puts) > view.at[places[0]][message_id].ended_s:
            yield Anomaly("phantom", f"{view.describe()}: {message_id} was read before it was sent")


def duplicates(view: LogView) -> Iterator[Anomaly]:
    """Messages that are stored at more offsets than their puts explain."""
    for message_id, places in view.places.items():
        puts = [put for put in view.attempts.get(message_id, ()) if put.may_be_done]
        if not puts:
            continue
        idempotent = all(put.args.get("idempotent") for put in puts)
        allowed = 1 if idempotent else len(puts)
        if len(places) > allowed:
            yield Anomaly(
                "duplicate",
                f"{view.describe()}: {message_id} at {places} from {len(puts)} "
                f"{'idempotent ' if idempotent else ''}puts, first {puts[0]}",
            )


def corrupt_payloads(view: LogView) -> Iterator[Anomaly]:
    """Messages that were read with other bytes than were sent."""
    for offset, found in view.at.items():
        if None in found:
            text = f"{view.describe()} at {offset}: the payload is not what was sent: {found[None]}"
            yield Anomaly("corrupt-payload", text)


def order_inversions(view: LogView) -> Iterator[Anomaly]:
    """A message acknowledged before another was sent, but stored after it in the log."""
    latest: tuple[float, str] = (float("-inf"), "")  # newest first send at smaller offsets
    for places, message_id in sorted((each[0], name) for name, each in view.places.items()):
        acked = view.acked(message_id) if view.first_place(message_id) is not None else None
        if acked is not None and acked.ended_s < latest[0]:
            yield Anomaly(
                "order-inversion",
                f"{view.describe()}: {message_id} at {places} was acked at {acked.ended_s:.3f}, "
                f"and {latest[1]}, sent at {latest[0]:.3f}, is stored before it",
            )
        puts = view.attempts.get(message_id)
        if puts:
            latest = max(latest, (_first_send(puts), message_id))


def broken_lanes(view: LogView) -> Iterator[Anomaly]:
    """Batches that a producer had in flight together are stored in another order, or with a hole.

    Their puts have the producer's ``lane`` and their ``number`` in it.
    """
    if view.final is None or view.damaged:
        return
    lanes: dict[str, list[tuple[int, int]]] = defaultdict(list)  # offset and number of batches
    for offset, message_id in sorted(_final_ids(view).items()):
        put = view.attempts.get(message_id or "", [None])[0]
        if put is not None and "lane" in put.args and put.args["ids"][0] == message_id:
            lanes[put.args["lane"]].append((offset, put.args["number"]))
    for lane, stored in lanes.items():
        for (_, number), (offset, following) in pairwise(stored):
            text = f"{view.describe()}: {lane} has batch {following} at {offset} behind {number}"
            if following < number:
                yield Anomaly("order-inversion", text)
            elif following > number + 1:
                yield Anomaly("sequence-hole", text)


def _first_send(puts: list[Operation]) -> float:
    return min((put.began_s for put in puts if put.may_be_done), default=float("-inf"))
