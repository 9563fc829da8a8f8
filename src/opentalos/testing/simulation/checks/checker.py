"""The history checker: names every promise that a history breaks.

    anomalies = check(history)
    assert not anomalies, "\n".join(map(str, anomalies))

It judges simulations and real processes alike, by what clients were told and saw. A new check is a
function of the history or of the view of one partition or table, added to its list here, with its
name in ``ANOMALIES``.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from opentalos.testing.simulation.checks import (
    cluster,
    groups,
    messages,
    metering,
    offsets,
    servers,
    table_changes,
    tables,
)
from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.checks.view.log_view import LogView, log_views
from opentalos.testing.simulation.checks.view.table_view import TableView, table_views
from opentalos.testing.simulation.history import History

__all__ = ["ANOMALIES", "Anomaly", "check"]

REPORTED_MAX = 5  # anomalies of one name; the rest would say the same

ANOMALIES: dict[str, str] = {
    "lost-write": "an acknowledged message is not in the log",
    "dirty-read": "a consumer saw a message that is no longer in the log",
    "phantom": "the log has a message that nobody sent, or whose put was not done",
    "aborted-read": "a consumer saw a message whose put was not done",
    "duplicate": "a message lies at more offsets than its puts explain",
    "corrupt-payload": "a message came back with other bytes",
    "order-inversion": "a message acked before another was sent lies behind it",
    "inconsistent-offsets": "two messages were seen or acked at one offset",
    "offset-gap": "the log, or an answer, misses an offset in its middle",
    "nonmonotonic-poll": "a consumer was given offsets that it had passed",
    "poll-skip": "a consumer was not given an offset that the log retained",
    "false-out-of-range": "an offset inside the log was refused as out of range",
    "unreadable": "the log was called corrupt though nothing was damaged",
    "start-offset-went-back": "the start offset became smaller",
    "next-offset-went-back": "the next offset became smaller than was known",
    "append-time-went-back": "append times of the log are not in order",
    "wrong-lookup": "a time was resolved to another offset than the log has",
    "stale-read": "a server answered 'nothing yet' behind what it had shown before",
    "stale-commit": "a checkpoint was moved by a worker without the lease",
    "lost-checkpoint": "a committed checkpoint was forgotten",
    "commit-beyond-end": "a checkpoint was accepted behind the log's end",
    "commit-beyond-read": "a checkpoint passed what its worker had been given",
    "false-sequence-gap": "an idempotent producer that left nothing out was refused",
    "two-writers": "an older epoch's commit succeeded after a newer one's",
    "meter-drift": "usage events and committed messages differ",
    "missing-mutation": "an acknowledged change of a row, or one before it, is not in a stream",
    "cdc-phantom": "a stream tells of a change that nobody sent, or that was not done",
    "cdc-row-inversion": "changes of a row were stored in another order than they were made",
    "cdc-double-increment": "an increment counts twice after replay, or its sum is wrong",
    "table-differs": "a replayed stream leads to other rows than the table has",
    "resend-differs": "a change was told again as another change",
    "timestamp-went-back": "a later change of a row has no later timestamp",
    "lost-row-write": "an acknowledged write is not in its row",
    "wrong-condition": "a conditional mutation was done though its condition did not hold",
    "mark-too-early": "a change not later than a resolved mark was stored behind it",
    "index-differs": "an index scan gives other rows than the table has",
    "tenant-leak": "a caller learned of something it was not granted",
    "stuck-partition": "a call failed though every fault was over",
    "never-rebalanced": "a partition stayed without a living owner, or a server without a part",
    "moved-for-announced-restart": "a partition moved although its server was back in time",
    "stale-schedule": "schedule info sent clients to the wrong server for good",
    "forward-loop": "a request was forwarded more than once",
    "verify-fault": "stored files, offsets and manifests disagree",
    "left-behind": "files of a deleted topic are still there",
    "unanswered": "a waiter was never called",
    "answered-twice": "a waiter was called twice",
    "unhandled-error": "an exception reached nobody",
    "deadlock": "everything waits for ever",
}

PARTITION_CHECKS: tuple[Callable[[LogView], Iterator[Anomaly]], ...] = (
    messages.lost_writes,
    messages.dirty_reads,
    messages.phantoms,
    messages.duplicates,
    messages.corrupt_payloads,
    messages.order_inversions,
    offsets.inconsistent_offsets,
    offsets.offset_gaps,
    offsets.polls,
    offsets.false_out_of_range,
    offsets.unreadable,
    offsets.going_back,
    offsets.stale_reads,
    offsets.times_going_back,
)

TABLE_CHECKS: tuple[Callable[[TableView], Iterator[Anomaly]], ...] = (
    table_changes.missing_mutations,
    table_changes.phantom_changes,
    table_changes.double_increments,
    table_changes.wrong_conditions,
    tables.row_inversions,
    tables.table_differs,
    tables.resends_differ,
    tables.timestamps_going_back,
    tables.lost_row_writes,
    tables.marks_too_early,
    tables.index_differs,
)

HISTORY_CHECKS: tuple[Callable[[History], Iterator[Anomaly]], ...] = (
    offsets.wrong_lookups,
    groups.stale_commits,
    groups.commits_after_reset,
    groups.lost_checkpoints,
    groups.commits_beyond_read,
    servers.two_writers,
    servers.false_sequence_gaps,
    servers.tenant_leaks,
    metering.meter_drift,
    servers.stuck_partitions,
    servers.reported,
    cluster.moved_for_announced_restarts,
)


def check(history: History) -> list[Anomaly]:
    """All anomalies of a history, at most ``REPORTED_MAX`` of each name."""
    found: list[Anomaly] = []
    count: Counter[str] = Counter()
    for anomaly in _all(history):
        if anomaly.name not in ANOMALIES:
            raise ValueError(f"an anomaly without a name: {anomaly}")
        count[anomaly.name] += 1
        if count[anomaly.name] <= REPORTED_MAX:
            found.append(anomaly)
    return found


def _all(history: History) -> Iterator[Anomaly]:
    views = log_views(history)
    for view in views:
        for partition_check in PARTITION_CHECKS:
            yield from partition_check(view)
    yield from groups.commits_beyond_end(history, views)
    for table in table_views(history):
        for table_check in TABLE_CHECKS:
            yield from table_check(table)
    for history_check in HISTORY_CHECKS:
        yield from history_check(history)
