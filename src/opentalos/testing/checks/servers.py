"""Checks of servers: one writer, no tenant sees another's, everything is answered and recovers."""

import re
from collections.abc import Iterator

from opentalos.testing.checks.anomaly import Anomaly
from opentalos.testing.checks.log_view import deleted_topics
from opentalos.testing.history import History

_SEGMENT = re.compile(r"(?P<log>.+/\d+)/(?P<base>\d+)-(?P<epoch>\d+)\.log")
HIDDEN = "TopicNotExist"  # what a caller without any right must be told
REPORTED = ("unanswered", "answered-twice", "unhandled-error", "deadlock")


def two_writers(history: History) -> Iterator[Anomaly]:
    """A commit of an older epoch succeeded after a commit of a newer epoch of the partition."""
    newest: dict[str, tuple[int, str]] = {}
    for note in history.noted("file-commit"):
        segment = _SEGMENT.fullmatch(note.args["path"])
        if segment is None:
            continue
        log, epoch = segment["log"], int(segment["epoch"])
        known = newest.get(log, (-1, ""))
        if epoch < known[0]:
            yield Anomaly(
                "two-writers",
                f"{note.args['process']} committed to {note.args['path']} after {known[1]}",
            )
        else:
            newest[log] = (epoch, f"{note.args['process']} to {note.args['path']}")


def tenant_leaks(history: History) -> Iterator[Anomaly]:
    """A caller without a grant got an answer, or learned that the topic exists."""
    topic_of: dict[str, str] = {}
    for put in history.of("put"):
        for message_id in put.args["ids"]:
            topic_of.setdefault(message_id, put.args["topic"])
    for operation in history.operations:
        if operation.args.get("granted") is False:
            refused = operation.outcome.value == "fail"
            if operation.ok or (refused and not operation.error.startswith(HIDDEN)):
                yield Anomaly("tenant-leak", str(operation))
        if operation.action in ("read", "poll") and operation.ok:
            for _, ids in operation.result.get("blocks", ()):
                for message_id in ids:
                    topic = topic_of.get(message_id, operation.args["topic"])
                    if topic != operation.args["topic"]:
                        yield Anomaly("tenant-leak", f"{message_id} of {topic}: {operation}")


def stuck_partitions(history: History) -> Iterator[Anomaly]:
    """A call failed although every fault was over and its patience was long."""
    deleted = deleted_topics(history)
    rotten = {(note.args["topic"], note.args["partition"]) for note in history.noted("rot")}
    for operation in history.operations:
        args = operation.args
        if not args.get("healed") or operation.ok or args.get("topic") in deleted:
            continue
        if (args.get("topic"), args.get("partition")) not in rotten:
            yield Anomaly("stuck-partition", str(operation))


def reported(history: History) -> Iterator[Anomaly]:
    """What the world itself saw go wrong."""
    for note in history.notes:
        if note.kind in REPORTED:
            yield Anomaly(note.kind, f"at {note.at_s:.3f}: {note.args.get('text', '')}")
