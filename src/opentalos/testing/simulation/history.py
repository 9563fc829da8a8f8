"""The calls of clients with their outcomes, kept in memory or written as JSON lines.

``Recorder`` records a history, ``check`` judges it. Neither knows where it comes from: a simulation
in virtual time, or real processes that wrote one file each with a shared monotonic clock.

    recorder = Recorder(time.monotonic, sink=open("producer.jsonl", "a"))
    put = recorder.invoke("producer-1", "put", topic="t", partition=0, ids=["a", "b"])
    recorder.ok(put)                      # or fail (not stored), or unknown (stored or not)
    anomalies = check(History.load(["producer.jsonl", "consumer.jsonl"]))

An operation is open from ``invoke`` until it ends once: as ok, failed or unknown. One that never
ended, for example because its process was killed, counts as unknown. Message ids are strings and
unique in the whole history.

| Action | Arguments | Result |
| --- | --- | --- |
| put | topic, partition, ids, idempotent?, granted?, tenant?, lane? and number? of a batch in |
| | it, pipelined? behind batches whose outcome is open | offset? of the first message |
| read | topic, partition, offset, final?, granted?, quiet? | blocks: [[offset, [id or null]]], |
| | | behind? messages after them, null: the log is damaged there |
| read | the same in a leader epoch: epoch | by: the host that answered |
| leaders | topic | by, epoch, leaders: host by partition; of a Kafka client |
| poll | topic, partition, session | blocks; one consumer's deliveries, in order |
| range | topic, partition | start, next |
| end | topic, partition, by: what was asked that shows where the log ends | next at most |
| trim | topic, partition, offset below which all is deleted, -1: everything | start |
| lock, unlock | group, topic, partition, worker | |
| renew | group, topic, worker, partitions | failed: partitions |
| commit | group, topic, partition, worker, offset | |
| checkpoint | group, topic, partition | offset, -1: none |
| reset | group, topic, partition, offset | |
| lookup | topic, partition, time_ms, expected | offset, start of the log after it if another |
| delete | topic | |
| alter | topic, durability or retention_s | |
| mutate | table, key, operation, columns?, amounts?, attribute?, condition? | success, amounts? |
| scan | table, final, index?, column? | rows: [[key, columns]] |
| changes | table, topic, partition | start, next, changes: [[offset, change]] |
| mark | table, topic | timestamp_ms, offsets: [[partition, next]] |
| stream | table, topic, enabled | |
| member-join | group, topic; of a Kafka group | member, generation, partitions it was given |
| member-commit | group, topic, partition, offset, member, generation | |
| member-beat, member-leave | group, topic | |
| assigned-beat | group, topic, epoch: 0 joins, below leaves; owned: what it reads, | by: the |
| | null: as before; of a member whose coordinator assigns | process, epoch, assignment, null: |
| | | as before |
| assigned-commit | group, topic, partition, offset, epoch | by |
| assigned-positions | group, topic | offsets: [[partition, next offset]] |
| take-lease, renew-lease | lease, holder, ttl_s, epoch? of a renewal | epoch |
| release-lease | lease, holder, epoch | |
| lease-write | lease, holder, epoch: a write that is refused below the highest epoch seen | |

Every operation may have ``server`` (which served it) and ``healed`` (all faults have ended, so it
must succeed). A final read, made at the end, also has ``start`` and ``next``, and may have
``times``: [[offset, append_ms]] of its blocks. A null id is a payload that is not what was sent.

Rows are named by a string; columns are name to number or text. ``operation``: put (columns),
increment (amounts; its result has the new values) or remove (attribute: one column; none: the row).
``condition``: {field, operator, value} or {row_exists}; success is false if it did not hold. Each
item of a batch is an operation of its own. A scan of an ``index`` names the indexed column. A
change is {key, sequence, timestamp_ms, kind: put, increment or delete, columns, amounts, image,
row_deleted}, as far as the stream's view has them; the last read of each partition counts.

Notes are facts without an outcome.

| Note | Arguments |
| --- | --- |
| settings | lease_s, answer_s?, fair_s?, isolates?, retention? (see checks/storage.py), |
| | keeps?: nothing is ever deleted |
| topic | topic, durability, retention_s, retention_bytes |
| opening | topic uuid, partition: a server claimed it |
| truncated, tail-cut | topic uuid, partition: a server reported that it found the log shorter |
| set-aside | the same: it continues without a file |
| | with proven: something proves what was left out, so that had to be refused |
| tenant-fails | tenant, until_s: its storage hangs or fails until then |
| usurped | server, by: two stand-alone servers on one storage at once |
| power-loss | |
| rot, older, shorter | topic uuid, partition, path: a damage of the storage may concern it |
| store-older, file-shorter, record-rot | what was damaged |
| good-file-deleted | text |
| usage-event | topic uuid, partition, minute_ms, bytes, first_offset, next_offset |
| egress-event | topic uuid, reader, minute_ms, source, number, messages, bytes |
| kept-event | topic uuid, partition, minute_ms, start_offset |
| moved-start | topic uuid, partition, start, at_ms: a manifest with this start was stored |
| read | topic uuid, reader, bytes: a server returned them, and counted them |
| stored-blocks | topic uuid, partition, minute_ms (a minute's length), blocks: [[base offset, |
| | messages, append_ms, payload bytes]], all that were ever committed; sure: and no others |
| usage-topic | topic uuid of __usage |
| file-commit | path of the segment, process |
| verify-fault, left-behind, journal-left | text |
| table | table, streams: {topic: view} that it has since its creation, with all columns; former: |
| | tables that had its name before: their unknown operations may have changed this one; |
| | ttl_ms: a row expires this long after its last change |
| table-dropped | table: changes that its streams have not published are lost |
| killed-at | server, point: the kill point right before or after which it died |
| stream-gap | table, topic: the stream stopped; gap_ms: from this time on changes are missing |
| stuck-lease, unanswered, answered-twice, unhandled-error, deadlock | text |
| never-rebalanced, crowded-topic, stale-schedule, forward-loop | text |
| assigned | topic uuid, number, owners by partition: what a cluster's controller published |
| announced | host, wait_s: an announced restart, once the process has ended |
| lends | host, began_s, wait_s: the same, while others serve its partitions |
| forgotten | topic uuid: its assignment is gone |
| slow-link | ways: the network takes its time between two places |
| registered | servers: hosts that the coordination service knows |
| drain, stopping, process-crash | host: it is being drained, shuts down, crashes |
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TextIO

CORRUPT = "CorruptLog"  # prefix of the error text of such a rejection
HARMS = ("rot", "older", "shorter")  # damages of the storage, each for all that it may concern


class Outcome(Enum):
    """How an operation ended."""

    OPEN = "open"  # not ended: counts as unknown
    OK = "ok"
    FAIL = "fail"  # not stored
    UNKNOWN = "unknown"  # stored or not


@dataclass(slots=True, eq=False)
class Operation:
    """One call of one client process; times in seconds of the history's clock."""

    number: int
    process: str
    action: str
    began_s: float
    args: Mapping[str, Any]
    outcome: Outcome = Outcome.OPEN
    ended_s: float = float("inf")
    result: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def ok(self) -> bool:
        """It was done, and its caller knows."""
        return self.outcome is Outcome.OK

    @property
    def may_be_done(self) -> bool:
        """It was not rejected."""
        return self.outcome is not Outcome.FAIL

    def __str__(self) -> str:
        shown = f"#{self.number} {self.process} {self.action} {dict(self.args)}"
        return f"{shown} -> {self.outcome.value} {self.error}{dict(self.result) or ''}"


@dataclass(frozen=True, slots=True)
class Note:
    """A fact that the checker has to know."""

    kind: str
    at_s: float
    args: Mapping[str, Any]


@dataclass(slots=True)
class History:
    """Operations in the order of their start, and notes in the order of their time."""

    operations: list[Operation] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def of(self, *actions: str) -> list[Operation]:
        """Operations of these actions."""
        return [operation for operation in self.operations if operation.action in actions]

    def noted(self, kind: str) -> list[Note]:
        """Notes of this kind."""
        return [note for note in self.notes if note.kind == kind]

    @classmethod
    def load(cls, paths: Iterable[str | Path]) -> "History":
        """Merge the JSON-lines files of one or more processes; a torn last line is ignored."""
        history = cls()
        for path in paths:
            _load_file(history, Path(path))
        history.operations.sort(key=lambda operation: operation.began_s)
        for number, operation in enumerate(history.operations):
            operation.number = number
        history.notes.sort(key=lambda note: note.at_s)
        return history


class PartitionName(NamedTuple):
    """Topic (resource name or uuid) and partition, as the history names them."""

    topic: str
    partition: int


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


def harmed_partitions(history: History) -> set[PartitionName]:
    """Partitions that a damage of the storage concerns, by the topic's uuid."""
    return {
        short_name(partition_named(note.args)) for kind in HARMS for note in history.noted(kind)
    }


def is_harmed(operation: Operation, harmed: set[PartitionName]) -> bool:
    """Whether the operation is about a partition that is harmed."""
    return "partition" in operation.args and short_name(partition_named(operation.args)) in harmed


def partition_named(args: Mapping[str, Any]) -> PartitionName:
    """The partition that arguments of an operation or a note name."""
    return PartitionName(args["topic"], args["partition"])


def short_name(name: PartitionName) -> PartitionName:
    """By the topic's uuid: a resource name ends with it, and it is all that a path has."""
    return PartitionName(name.topic.rsplit("#", 1)[-1], name.partition)


class Recorder:
    """Records operations and notes, in memory and, if given, as JSON lines to ``sink``.

    Args: now: a clock in seconds that all recorders of one history share.
        sink: flushed after every line, so that a killed process has written all it recorded.
    """

    def __init__(self, now: Callable[[], float], sink: TextIO | None = None) -> None:
        self.history = History()
        self._now, self._sink = now, sink

    def invoke(self, process: str, action: str, **args: Any) -> Operation:
        """Record an operation; call this before the request is sent."""
        operations = self.history.operations
        operation = Operation(len(operations), process, action, self._now(), args)
        operations.append(operation)
        self._write("invoke", operation, {"process": process, "action": action, "args": args})
        return operation

    def ok(self, operation: Operation, **result: Any) -> None:
        """It succeeded."""
        operation.result = result
        self._end(operation, Outcome.OK, {"result": result})

    def fail(self, operation: Operation, error: str) -> None:
        """It was rejected: nothing was stored."""
        operation.error = error
        self._end(operation, Outcome.FAIL, {"error": error})

    def unknown(self, operation: Operation, error: str) -> None:
        """Its outcome is unknown: stored or not."""
        operation.error = error
        self._end(operation, Outcome.UNKNOWN, {"error": error})

    def note(self, kind: str, **args: Any) -> None:
        """A fact without an outcome."""
        note = Note(kind, self._now(), args)
        self.history.notes.append(note)
        self._line({"event": "note", "kind": kind, "at_s": note.at_s, "args": args})

    def _end(self, operation: Operation, outcome: Outcome, more: Mapping[str, Any]) -> None:
        if operation.outcome is not Outcome.OPEN:
            raise ValueError(f"the operation has already ended: {operation}")
        operation.outcome, operation.ended_s = outcome, self._now()
        self._write(outcome.value, operation, more)

    def _write(self, event: str, operation: Operation, more: Mapping[str, Any]) -> None:
        if self._sink is not None:
            at_s = operation.began_s if event == "invoke" else operation.ended_s
            self._line({"event": event, "op": operation.number, "at_s": at_s, **more})

    def _line(self, record: Mapping[str, Any]) -> None:
        if self._sink is not None:
            self._sink.write(json.dumps(record, separators=(",", ":")) + "\n")
            self._sink.flush()


def dump(history: History, sink: TextIO) -> None:
    """Write a history as JSON lines that ``History.load`` reads."""
    lines: list[tuple[float, int, dict[str, Any]]] = []
    for note in history.notes:
        line = {"event": "note", "kind": note.kind, "at_s": note.at_s, "args": dict(note.args)}
        lines.append((note.at_s, 0, line))
    for operation in history.operations:
        began = {
            "event": "invoke",
            "op": operation.number,
            "at_s": operation.began_s,
            "process": operation.process,
            "action": operation.action,
            "args": dict(operation.args),
        }
        lines.append((operation.began_s, 1, began))
        if operation.outcome is not Outcome.OPEN:
            ended = {
                "event": operation.outcome.value,
                "op": operation.number,
                "at_s": operation.ended_s,
                "result": dict(operation.result),
                "error": operation.error,
            }
            lines.append((operation.ended_s, 2, ended))
    lines.sort(key=lambda line: line[:2])
    for _, _, line in lines:
        sink.write(json.dumps(line, separators=(",", ":")) + "\n")


def _load_file(history: History, path: Path) -> None:
    by_number: dict[int, Operation] = {}
    for text in path.read_text().splitlines():
        try:
            record = json.loads(text)
        except ValueError:
            continue  # the process was killed while it wrote this line
        event = record["event"]
        if event == "note":
            history.notes.append(Note(record["kind"], record["at_s"], record["args"]))
        elif event == "invoke":
            operation = Operation(
                record["op"],
                record["process"],
                record["action"],
                record["at_s"],
                record["args"],
            )
            by_number[operation.number] = operation
            history.operations.append(operation)
        else:
            operation = by_number[record["op"]]
            operation.outcome, operation.ended_s = Outcome(event), record["at_s"]
            operation.result = record.get("result", {})
            operation.error = record.get("error", "")
