"""Checks of servers: one writer (I2), every call answered (I7), isolated tenants (I8), recovery."""

import re
from collections.abc import Iterator

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.checks.view.log_view import (
    deleted_topics,
    heard_cuts,
    rival_servers,
)
from opentalos.testing.simulation.history import (
    History,
    Operation,
    flushed_topics,
    harmed_partitions,
    is_harmed,
)

_SEGMENT = re.compile(r"(?P<log>.+/\d+)/(?P<base>\d+)-(?P<epoch>\d+)\.log")
HIDDEN = "TopicNotExist"  # the only error that a caller without permission may receive
FORGOTTEN = "producer"  # in the rejection of one that a partition does not know any more
REPORTED = (
    "stuck-lease",
    "never-rebalanced",
    "crowded-topic",
    "stale-schedule",
    "forward-loop",
    "verify-fault",
    "left-behind",
    "good-file-deleted",
    "journal-left",
    "unanswered",
    "answered-twice",
    "unhandled-error",
    "deadlock",
)


def two_writers(history: History) -> Iterator[Anomaly]:
    """A commit of an older epoch succeeded after a commit of a newer epoch of the partition.

    The first commit of a segment does not count: it precedes the manifest change that names the
    segment, so an owner that was just replaced may still make it; it acknowledges no message.
    Where a store came back older, epochs begin again.
    """
    deleted = {topic.rsplit("#", 1)[-1] for topic in deleted_topics(history)}
    newest: dict[str, tuple[int, str]] = {}
    seen: set[str] = set()
    for note in history.notes:
        if note.kind == "older":
            newest.pop(f"{note.args['topic']}/{note.args['partition']}", None)
        if note.kind != "file-commit":
            continue
        path = note.args["path"]
        segment = _SEGMENT.fullmatch(path)
        if segment is None or segment["log"].split("/", 1)[0] in deleted:
            continue
        log, epoch = segment["log"], int(segment["epoch"])
        known = newest.get(log, (-1, ""))
        if epoch < known[0] and path in seen:
            yield Anomaly(
                "two-writers", f"{note.args['process']} committed to {path} after {known[1]}"
            )
        if epoch >= known[0]:
            newest[log] = (epoch, f"{note.args['process']} to {path}")
        seen.add(path)


def false_sequence_gaps(history: History) -> Iterator[Anomaly]:
    """An idempotent producer that left out nothing was rejected with a sequence gap.

    Not judged: flushed topics after a power loss; partitions of which a server said that it left
    something out, since their storage was damaged; replies of one of two stand-alone servers on
    one storage about a topic that the other deleted: it still knows the topic and creates its log
    again; producers that were forgotten, if there are more than the bound; batches that were sent
    behind others whose outcome was not known yet.
    """
    flushed = flushed_topics(history)
    lossy = flushed if history.noted("power-loss") else set()
    rivals = rival_servers(history)
    forgets = any(note.args.get("forgets") for note in history.noted("settings"))
    cut = set(heard_cuts(history))
    for put in history.of("put"):
        args = put.args
        if args.get("pipelined") or (forgets and FORGOTTEN in put.error):
            continue
        if not args.get("idempotent") or not put.error.startswith("SequenceGap"):
            continue
        if (
            args["topic"] not in lossy
            and not is_harmed(put, cut)
            and not _deleted_by_a_rival(history, put, rivals)
        ):
            yield Anomaly("false-sequence-gap", f"the producer left out nothing: {put}")


def _deleted_by_a_rival(history: History, put: Operation, rivals: set[str]) -> bool:
    server = put.args.get("server")
    return server in rivals and any(
        delete.args["topic"] == put.args["topic"]
        and delete.args.get("server") != server
        and delete.may_be_done
        and delete.began_s < put.ended_s
        for delete in history.of("delete")
    )


def tenant_leaks(history: History) -> Iterator[Anomaly]:
    """A caller without permission received data, or learned that the topic exists."""
    topic_of: dict[str, str] = {}
    for put in history.of("put"):
        for message_id in put.args["ids"]:
            topic_of.setdefault(message_id, put.args["topic"])
    for operation in history.operations:
        if operation.args.get("granted") is False:
            refused = operation.outcome.value == "fail"
            if operation.ok or (refused and not operation.error.startswith(HIDDEN)):
                yield Anomaly("tenant-leak", f"the caller has no permission: {operation}")
        if operation.action in ("read", "poll") and operation.ok:
            for _, ids in operation.result.get("blocks", ()):
                for message_id in ids:
                    topic = topic_of.get(message_id, operation.args["topic"])
                    if topic != operation.args["topic"]:
                        text = f"{message_id} belongs to {topic}: {operation}"
                        yield Anomaly("tenant-leak", text)


def stuck_partitions(history: History) -> Iterator[Anomaly]:
    """A call failed although every fault had ended and its timeout was long."""
    deleted = deleted_topics(history)
    harmed = harmed_partitions(history)
    for operation in history.operations:
        args = operation.args
        if not args.get("healed") or operation.ok or args.get("topic") in deleted:
            continue
        if not is_harmed(operation, harmed):
            yield Anomaly("stuck-partition", f"every fault had ended: {operation}")


def reported(history: History) -> Iterator[Anomaly]:
    """Anomalies that the world itself observed and noted."""
    for note in history.notes:
        if note.kind in REPORTED:
            yield Anomaly(note.kind, f"at {note.at_s:.3f}: {note.args.get('text', '')}")
