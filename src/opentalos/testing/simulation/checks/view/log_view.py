"""LogView: everything a history says about one partition, indexed for the checks.

A ``flushed`` partition may lose its last messages in a power loss. Its history is split into the
periods between power losses; each period has its own view, and only the last has the final read.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from opentalos.testing.simulation.history import History, Operation

CORRUPT = "CorruptLog"  # prefix of the error text of such a rejection


class PartitionName(NamedTuple):
    """Topic (resource name or uuid) and partition, as the history names them."""

    topic: str
    partition: int


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
    final: Operation | None = None
    seen: list[Seen] = field(default_factory=list)
    at: dict[int, dict[str | None, Operation]] = field(default_factory=dict)  # by offset
    places: dict[str, list[int]] = field(default_factory=dict)  # offsets by id, ascending
    rotten: bool = False  # a stored bit was flipped: some of it may be unreadable
    truncated: bool = False  # a server reported that it found the log shorter

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
        """Whether it is rotten and refuses puts for it, so it cannot know its last messages."""
        puts = [put for each in self.attempts.values() for put in each if put.error or put.ok]
        last = max(puts, key=lambda put: put.began_s, default=None)
        return self.rotten and last is not None and last.error.startswith(CORRUPT)

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


def flushed_topics(history: History) -> set[str]:
    """Topics that may lose their last messages in a power loss, at least for a while."""
    created = {
        note.args["topic"]
        for note in history.noted("topic")
        if note.args.get("durability") == "flushed"
    }
    return created | {
        change.args["topic"]
        for change in history.of("alter")
        if change.args.get("durability") == "flushed" and change.may_be_done
    }


def rotten_partitions(history: History) -> set[PartitionName]:
    """Partitions in which a stored bit was flipped, by the topic's uuid."""
    return {_short(_named(note.args)) for note in history.noted("rot")}


def is_rotten(operation: Operation, rotten: set[PartitionName]) -> bool:
    """Whether the operation is about a partition with a flipped bit."""
    return "partition" in operation.args and _short(_named(operation.args)) in rotten


def _named(args: Mapping[str, Any]) -> PartitionName:
    return PartitionName(args["topic"], args["partition"])


def _short(name: PartitionName) -> PartitionName:
    # A resource name ends with the uuid, which is all that a path has.
    return PartitionName(name.topic.rsplit("#", 1)[-1], name.partition)


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
    for operation in history.of("put", "read", "poll", "range"):
        by_name[_named(operation.args)].append(operation)
    rotten = rotten_partitions(history)
    truncations = [(_short(_named(note.args)), note.at_s) for note in history.noted("truncated")]
    deleted = deleted_topics(history)
    views: list[LogView] = []
    for name, operations in by_name.items():
        edges = losses if name.topic in flushed else []
        end_s = deleted[name.topic].began_s if name.topic in deleted else float("inf")
        bounds = [float("-inf"), *(edge for edge in edges if edge < end_s), end_s]
        for began_s, ended_s in pairwise(bounds):
            view = LogView(name, began_s, ended_s, rotten=_short(name) in rotten)
            view.truncated = any(
                _short(name) == cut and began_s <= at_s <= ended_s for cut, at_s in truncations
            )
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
        elif operation.action == "range":
            if operation.ok:
                view.ranges.append(operation)
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
