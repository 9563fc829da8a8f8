"""TableView: everything a history says about one structured table, indexed for the checks."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from opentalos.testing.simulation.history import History, Operation

MUTATE_LOG, RECORD_IMAGE = "MUTATE_LOG", "RECORD_IMAGE"
Values = Mapping[str, Any]  # of columns, by name
State = Values | None  # of a row; None: it does not exist
NEVER_S, ALWAYS_S = float("inf"), float("-inf")


class Delivered(NamedTuple):
    """One message of a stream, with its partition and offset."""

    partition: int
    offset: int
    key: str
    sequence: int
    timestamp_ms: int
    kind: str  # put, increment or delete
    columns: Values
    amounts: Values
    image: Values
    row_deleted: bool

    @property
    def content(self) -> tuple[Any, ...]:
        """What a resend has to repeat."""
        return self[3:]

    @property
    def tag(self) -> str:
        """Equal to the tag of each mutation that may have made it."""
        if self.kind == "put":
            return _tag("put", self.columns)
        if self.kind == "increment":
            return _tag("increment", self.amounts)
        return _tag("remove", [] if self.row_deleted else sorted(self.columns))

    def __str__(self) -> str:
        what = {"put": self.columns, "increment": self.amounts}.get(self.kind, self.columns)
        place = f"{self.partition}:{self.offset}"
        return f"{self.key}#{self.sequence} ({self.kind} {dict(what)}) at {place}"


class Transition(NamedTuple):
    """A change of a row, and the row before and after it, by replaying the row's changes."""

    change: Delivered
    before: State
    after: State


@dataclass(slots=True)
class StreamView:
    """What a topic has of a table's changes.

    ``whole``: it was never disabled, and read from its first message to its end. ``on_s``: since
    then it certainly has every change. ``cut``: its table was dropped, so the last changes of each
    row may be missing. ``gap_ms``: it stopped, and has every change before that time.
    """

    topic: str
    view: str
    whole: bool = False
    on_s: float = NEVER_S
    cut: bool = False
    gap_ms: int | None = None
    ttl_ms: int = 0  # a row expires this long after its last change; 0: never
    rows: dict[str, list[Delivered]] = field(default_factory=dict)  # by key, in stored order

    def firsts(self, key: str) -> dict[int, Delivered]:
        """First deliveries of a row's changes by sequence, in stored order."""
        found: dict[int, Delivered] = {}
        for each in self.rows.get(key, ()):
            found.setdefault(each.sequence, each)
        return found

    def transitions(self, key: str) -> list[Transition]:
        """A row's changes in order, each once, with the row's state before and after it."""
        found: list[Transition] = []
        state: State = None
        firsts = self.firsts(key)
        last_ms = 0
        for sequence in sorted(firsts):
            change = firsts[sequence]
            if self.ttl_ms and change.timestamp_ms - last_ms >= self.ttl_ms:
                state = None
            after = _after(state, change)
            found.append(Transition(change, state, after))
            state, last_ms = after, change.timestamp_ms
        return found


@dataclass(slots=True)
class TableView:
    """One table."""

    name: str
    mutations: dict[str, list[Operation]] = field(default_factory=dict)  # by key
    streams: list[StreamView] = field(default_factory=list)
    marks: list[Operation] = field(default_factory=list)  # answered
    rows: Mapping[str, Values] | None = None  # by key, as the last final scan returned them
    scanned_ms: tuple[int, int] = (0, 0)  # servers' clocks when that scan began and when it ended
    ttl_ms: int = 0
    index_scans: list[Operation] = field(default_factory=list)  # final, answered
    rivals: bool = False  # two stand-alone servers had it at once, each assuming to be the only one

    @property
    def keys(self) -> list[str]:
        """Of every row that the history mentions."""
        known = dict.fromkeys(self.mutations)
        for stream in self.streams:
            known |= dict.fromkeys(stream.rows)
        return [*(known | dict.fromkeys(self.rows or ()))]


def table_views(history: History) -> list[TableView]:
    """Views of all tables that were noted."""
    return [_view(history, note.args) for note in history.noted("table")]


def acked(mutation: Operation) -> bool:
    """It was done, and its caller knows."""
    return mutation.ok and bool(mutation.result.get("success", True))


def may_be_done(mutation: Operation) -> bool:
    """It was not rejected, and no condition prevented it."""
    return mutation.may_be_done and (not mutation.ok or acked(mutation))


def ended_s(mutation: Operation) -> float:
    """The time after which it certainly changes nothing."""
    return mutation.ended_s if mutation.outcome.value in ("ok", "fail") else NEVER_S


def tag_of(mutation: Operation) -> str:
    """Equal to the tag of the change that it makes."""
    args = mutation.args
    if args["operation"] == "put":
        return _tag("put", args["columns"])
    if args["operation"] == "increment":
        return _tag("increment", args["amounts"])
    return _tag("remove", [args["attribute"]] if args.get("attribute") else [])


def _tag(kind: str, content: object) -> str:
    return kind + json.dumps(content, sort_keys=True)


def _after(state: State, change: Delivered) -> State:
    if change.row_deleted:
        return None
    held: dict[str, Any] = dict(state or {})
    if change.kind != "delete":
        return {**held, **change.columns}
    for name in change.columns:
        held.pop(name, None)
    return held


def _view(history: History, note: Mapping[str, Any]) -> TableView:
    found = TableView(note["table"], ttl_ms=note.get("ttl_ms", 0))
    operations = [each for each in history.operations if each.args.get("table") == found.name]
    mutations: dict[str, list[Operation]] = defaultdict(list)
    for operation in operations:
        if operation.action == "mutate":
            mutations[operation.args["key"]].append(operation)
        elif operation.action == "mark" and operation.ok:
            found.marks.append(operation)
        elif operation.action == "scan" and operation.ok and operation.args.get("final"):
            if operation.args.get("index"):
                found.index_scans.append(operation)
            else:
                found.rows = dict(operation.result["rows"])
                found.scanned_ms = tuple(operation.result.get("wall_ms", (0, 0)))
    found.rivals = bool(history.noted("usurped"))
    late = set(note.get("former", ()))  # their unknown operations may have changed this table
    for operation in history.of("mutate"):
        if operation.args.get("table") in late and ended_s(operation) == NEVER_S:
            mutations[operation.args["key"]].append(operation)
    found.mutations = dict(mutations)
    dropped = {each.args["table"] for each in history.noted("table-dropped")}
    gaps = {each.args["topic"]: each.args.get("gap_ms") for each in history.noted("stream-gap")}
    for topic, view in note["streams"].items():
        mine = [each for each in operations if each.args.get("topic") == topic]
        stream = _stream(StreamView(topic, view), mine, gaps)
        stream.ttl_ms = found.ttl_ms
        stream.cut = found.name in dropped
        if found.rivals and not stream.whole:
            stream.on_s = NEVER_S  # the rival may not know that it was enabled again
        found.streams.append(stream)
    return found


def matched(stream: StreamView, key: str, mutations: list[Operation]) -> dict[int, Operation]:
    """Changes of a row, by sequence, whose mutation is certain."""
    if stream.view != MUTATE_LOG:
        return {}
    firsts = stream.firsts(key)
    delivered = Counter(change.tag for change in firsts.values())
    candidates = [mutation for mutation in mutations if may_be_done(mutation)]
    made = Counter(tag_of(mutation) for mutation in candidates)
    by_tag = {tag_of(mutation): mutation for mutation in candidates}
    return {
        sequence: by_tag[change.tag]
        for sequence, change in firsts.items()
        if delivered[change.tag] == 1 and made[change.tag] == 1
    }


def in_order(stream: StreamView, table: TableView, key: str) -> list[Delivered]:
    """First deliveries of a row, in stored order, whose order is promised.

    A stream that was disabled starts again each time; changes in flight may arrive late.
    """
    firsts = stream.firsts(key)
    if stream.whole or stream.gap_ms is not None:
        return [*firsts.values()]
    made = matched(stream, key, table.mutations.get(key, []))
    return [
        change
        for sequence, change in firsts.items()
        if sequence in made and made[sequence].began_s > stream.on_s
    ]


def _stream(
    stream: StreamView, operations: list[Operation], gaps: Mapping[str, int | None]
) -> StreamView:
    reads = {
        each.args["partition"]: each for each in operations if each.action == "changes" and each.ok
    }
    switches = [each for each in operations if each.action == "stream" and each.may_be_done]
    complete = bool(reads) and all(each.result["start"] == 0 for each in reads.values())
    if complete and stream.topic not in gaps:
        stream.whole = not switches
        stream.on_s = _on_s(switches)
    elif complete and not switches:
        stream.gap_ms = gaps[stream.topic]
    rows: dict[str, list[Delivered]] = defaultdict(list)
    for partition in sorted(reads):
        for change in _delivered(reads[partition]):
            rows[change.key].append(change)
    stream.rows = dict(rows)
    return stream


def _on_s(switches: list[Operation]) -> float:
    """Since when the stream is certainly enabled; NEVER_S: it may be disabled."""
    on_s = ALWAYS_S
    for switch in switches:
        if not switch.args["enabled"]:
            on_s = NEVER_S
        elif switch.ok and on_s == NEVER_S:
            on_s = switch.ended_s
    unsure = [each for each in switches if not each.ok and not each.args["enabled"]]
    return NEVER_S if unsure else on_s  # an unknown operation may take effect at any later time


def _delivered(read: Operation) -> Iterator[Delivered]:
    for offset, change in read.result["changes"]:
        yield Delivered(
            partition=read.args["partition"],
            offset=offset,
            key=change["key"],
            sequence=change["sequence"],
            timestamp_ms=change["timestamp_ms"],
            kind=change["kind"],
            columns=change.get("columns", {}),
            amounts=change.get("amounts", {}),
            image=change.get("image", {}),
            row_deleted=change.get("row_deleted", False),
        )
