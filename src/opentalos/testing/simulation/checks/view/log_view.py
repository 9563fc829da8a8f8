"""LogView: everything a history says about one partition, indexed for the checks.

A ``flushed`` partition may lose its last messages in a power loss. Its history is split into the
periods between power losses; each period has its own view, and only the last has the final read.
So is that of a partition whose storage came back older or shorter, where a server said that the log
continues without something: what nothing proves to be acknowledged cannot be known (promise I1).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from opentalos.testing.simulation.history import (
    CORRUPT,
    History,
    Operation,
    PartitionName,
    flushed_topics,
    harmed_partitions,
    partition_named,
    short_name,
)

HEARD = ("truncated", "tail-cut", "set-aside")  # what a server says that it left out of a log
CUTS = {"older": ("truncated", "set-aside"), "shorter": ("truncated", "tail-cut")}


class Seen(NamedTuple):
    """One message at one offset in one reply."""

    offset: int
    id: str | None
    operation: Operation


@dataclass(slots=True)
class LogView:
    """One partition in one period of time."""

    name: PartitionName
    began_s: float = float("-inf")
    ended_s: float = float("inf")
    attempts: dict[str, list[Operation]] = field(default_factory=dict)  # puts by message id
    reads: list[Operation] = field(default_factory=list)  # answered reads and polls
    refused: list[Operation] = field(default_factory=list)  # reads that failed
    ranges: list[Operation] = field(default_factory=list)  # answered
    ends: list[Operation] = field(default_factory=list)  # answered, by whatever else shows an end
    final: Operation | None = None
    seen: list[Seen] = field(default_factory=list)
    at: dict[int, dict[str | None, Operation]] = field(default_factory=dict)  # by offset
    places: dict[str, list[int]] = field(default_factory=dict)  # offsets by id, ascending
    harmed: bool = False  # see ``history.harmed_partitions``: some of it may be unreadable
    truncated: bool = False  # a server reported that it found the log shorter
    keeps: bool = False  # nothing is deleted in this history
    rivals: frozenset[str] = frozenset()  # see ``rival_servers``

    def describe(self) -> str:
        """For the text of an anomaly."""
        return f"{self.name.topic}/{self.name.partition}"

    def acked(self, message_id: str) -> Operation | None:
        """The first put of the message that was acknowledged within the period."""
        for put in self.attempts.get(message_id, ()):
            if put.ok and put.began_s >= self.began_s and put.ended_s <= self.ended_s:
                return put
        return None

    def acked_ids(self) -> Iterator[tuple[str, Operation]]:
        """Acknowledged messages with their first acknowledged put."""
        for message_id in self.attempts:
            put = self.acked(message_id)
            if put is not None:
                yield message_id, put

    @property
    def damaged(self) -> bool:
        """Whether it is harmed and refuses puts for it, so it cannot know its last messages."""
        puts = [put for each in self.attempts.values() for put in each if put.error or put.ok]
        last = max(puts, key=lambda put: put.began_s, default=None)
        return self.harmed and last is not None and last.error.startswith(CORRUPT)

    def first_place(self, message_id: str) -> int | None:
        """Offset of the message's first copy, if it is certain.

        A message that was put twice may have an earlier copy that no client read.
        """
        places = self.places.get(message_id)
        if not places:
            return None
        puts = [put for put in self.attempts.get(message_id, ()) if put.may_be_done]
        once = all(put.args.get("idempotent") for put in puts) or len(puts) <= len(places)
        return places[0] if once else None

    @property
    def final_start(self) -> int:
        """Start offset at the end; only with a final read."""
        assert self.final is not None
        return int(self.final.result["start"])

    @property
    def final_next(self) -> int:
        """Next offset at the end; only with a final read."""
        assert self.final is not None
        return int(self.final.result["next"])


def retained_after(view: LogView, offset: int, time_s: float) -> bool:
    """Whether the offset was still retained at ``time_s``, as a later reply shows."""
    if view.final is not None and view.final_start <= offset:
        return True
    return any(
        int(each.result["start"]) <= offset for each in view.ranges if each.began_s >= time_s
    )


def blocks_of(operation: Operation) -> list[tuple[int, list[str | None]]]:
    """The blocks of a reply, as (offset, ids)."""
    return [(offset, ids) for offset, ids in operation.result.get("blocks", ())]


def heard_cuts(history: History) -> dict[PartitionName, list[float]]:
    """When servers said that harmed logs continue without something, by the topic's uuid.

    A file that is set aside although it proves that it was acknowledged is not heard: it had to be
    refused.
    """
    found: dict[PartitionName, list[float]] = defaultdict(list)
    explains: dict[PartitionName, set[str]] = defaultdict(set)
    for note in history.notes:
        if note.kind in CUTS:
            explains[short_name(partition_named(note.args))].update(CUTS[note.kind])
        elif note.kind in HEARD and not note.args.get("proven"):
            name = short_name(partition_named(note.args))
            if note.kind in explains[name]:
                found[name].append(note.at_s)
    return found


def deleted_topics(history: History) -> dict[str, Operation]:
    """Topics with the first attempt to delete them: nothing is promised after it."""
    deleted: dict[str, Operation] = {}
    for operation in history.of("delete"):
        if operation.may_be_done:
            deleted.setdefault(operation.args["topic"], operation)
    return deleted


def rival_servers(history: History) -> set[str]:
    """Stand-alone servers that ran on one storage at once, each as if it were the only one."""
    return {note.args[which] for note in history.noted("usurped") for which in ("server", "by")}


def log_views(history: History) -> list[LogView]:
    """Views of all partitions, in the order of their first operation."""
    losses = [note.at_s for note in history.noted("power-loss")]
    flushed = flushed_topics(history)
    by_name: dict[PartitionName, list[Operation]] = defaultdict(list)
    for operation in history.of("put", "read", "poll", "range", "end"):
        by_name[partition_named(operation.args)].append(operation)
    harmed, cuts = harmed_partitions(history), heard_cuts(history)
    rivals = frozenset(rival_servers(history))
    truncations = [
        (short_name(partition_named(note.args)), note.at_s) for note in history.noted("truncated")
    ]
    deleted = deleted_topics(history)
    keeps = any(note.args.get("keeps") for note in history.noted("settings"))
    views: list[LogView] = []
    for name, operations in by_name.items():
        cut_s = cuts.get(short_name(name), [])
        edges = sorted({*(losses if name.topic in flushed else ()), *cut_s})
        end_s = deleted[name.topic].began_s if name.topic in deleted else float("inf")
        bounds = [float("-inf"), *(edge for edge in edges if edge < end_s), end_s]
        for began_s, ended_s in pairwise(bounds):
            view = LogView(name, began_s, ended_s, harmed=short_name(name) in harmed, keeps=keeps)
            view.truncated = any(
                short_name(name) == cut and began_s <= at_s <= ended_s and at_s not in cut_s
                for cut, at_s in truncations
            )
            view.rivals = rivals
            _fill(view, operations)
            views.append(view)
    return views


def _fill(view: LogView, operations: Iterable[Operation]) -> None:
    for operation in operations:
        inside = operation.began_s >= view.began_s and operation.ended_s <= view.ended_s
        if operation.action == "put":
            for message_id in operation.args["ids"]:
                view.attempts.setdefault(message_id, []).append(operation)
        elif not inside:
            continue
        elif operation.action in ("range", "end"):
            if operation.ok:
                (view.ranges if operation.action == "range" else view.ends).append(operation)
        elif operation.ok:
            _add_read(view, operation)
        else:
            view.refused.append(operation)
    for offsets in view.places.values():
        offsets.sort()


def _add_read(view: LogView, operation: Operation) -> None:
    if operation.args.get("final"):
        view.final = operation
    view.reads.append(operation)
    for base, ids in blocks_of(operation):
        for index, message_id in enumerate(ids):
            offset = base + index
            view.seen.append(Seen(offset, message_id, operation))
            known = view.at.setdefault(offset, {})
            if message_id not in known:
                known[message_id] = operation
                if message_id is not None:
                    view.places.setdefault(message_id, []).append(offset)
