"""The history checker: names every promise (I1 to I9) that a history breaks.

    anomalies = check(history)
    assert not anomalies, "\n".join(map(str, anomalies))

Theory of operation. The checker knows histories only: which calls clients made, which replies they
received and when, and the facts that were noted beside them. It imports nothing of the server, so
it judges a simulation and a set of real processes by the same rules. An operation without a reply
counts as unknown: it may have happened at any time after it was sent. A check reports only what no
order of the unknown operations can explain, so it never blames a server for an allowed outcome.

Each check is a generator over the view of one partition, the view of one table, or the whole
history. A new check is added to its list below and names its anomaly in ``ANOMALIES``. The names
are part of the public API.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from opentalos.testing.simulation.checks import (
    cluster,
    lending,
    messages,
    metering,
    offsets,
    servers,
    storage,
    table_changes,
    tables,
)
from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.checks.group import leases, members, workers
from opentalos.testing.simulation.checks.view.log_view import LogView, log_views
from opentalos.testing.simulation.checks.view.table_view import TableView, table_views
from opentalos.testing.simulation.history import History

__all__ = ["ANOMALIES", "Anomaly", "check"]

REPORTED_MAX = 5  # anomalies of one name; more of them rarely say anything new

ANOMALIES: dict[str, str] = {
    "lost-write": "an acknowledged message is not in the log",
    "dirty-read": "a consumer read a message that is no longer in the log",
    "phantom": "the log has a message that no client sent, or whose put was rejected",
    "aborted-read": "a consumer read a message whose put was rejected",
    "duplicate": "a message is stored at more offsets than its puts explain",
    "corrupt-payload": "a message was read with other bytes than were sent",
    "order-inversion": "a message is stored after one that was sent later than its own ack",
    "inconsistent-offsets": "two messages were read or acknowledged at the same offset",
    "offset-gap": "the log, or a reply, has no message at an offset in its middle",
    "nonmonotonic-poll": "a consumer received offsets that it had already passed",
    "poll-skip": "a consumer did not receive an offset that the log retained",
    "lost-floor": "a log began before the offset up to which a deletion was acknowledged",
    "hidden-write": "a message was stored below the offset up to which a deletion was acknowledged",
    "deleted-read": "a reader got a message that was deleted before it asked",
    "sequence-hole": "a batch is stored although its producer's batch before it is not",
    "false-out-of-range": "an offset inside the log was rejected as out of range",
    "unreadable": "the log was reported corrupt although no stored bit was flipped",
    "start-offset-went-back": "the start offset decreased",
    "next-offset-went-back": "the next offset is lower than one known before",
    "append-time-went-back": "append times of the log are not in order",
    "wrong-lookup": "the offset returned for a time is not the log's",
    "stale-read": "a server returned no message at an offset that it had served before",
    "stale-commit": "a worker without the lease committed an offset",
    "assigned-twice": "a coordinator gave a partition to two members of a group at the same time",
    "left-worker-listed": "a worker that had left its group was still listed in it",
    "lost-checkpoint": "a committed offset is not the one that a later query returned",
    "commit-beyond-end": "a committed offset is beyond the end of the log",
    "commit-beyond-read": "a committed offset is beyond what its worker had received",
    "lease-epoch-repeated": "a new holder of a lease did not get a higher epoch than any before",
    "stale-lease-renewal": "a lease was renewed although a later holder had taken it",
    "two-lease-holders": "two holders could believe at the same time that they have a lease",
    "stale-lease-write": "a write was accepted although one with a higher epoch came before it",
    "stuck-lease": "a lease was not granted although every fault had ended and its time was over",
    "false-sequence-gap": "an idempotent producer was rejected although it left out nothing",
    "two-leaders": "two servers lead a partition in one epoch, or a server's epoch went back",
    "former-leader": "a server answered in an epoch in which, and since which, it does not lead",
    "two-writers": "an older epoch's commit succeeded after a newer epoch's commit",
    "meter-drift": "usage events and committed messages differ",
    "kept-drift": "reports say more of what was kept than manifests do, or lack what was dropped",
    "egress-drift": "egress events report more than was read, or one has two contents",
    "missing-mutation": "an acknowledged change of a row, or one before it, is not in a stream",
    "cdc-phantom": "a stream has a change that no client sent, or that was rejected",
    "cdc-row-inversion": "changes of a row are stored in another order than they were made",
    "cdc-double-increment": "an increment counts twice after replay, or its sum is wrong",
    "table-differs": "a replayed stream gives other rows than the table has",
    "resend-differs": "a change was published again with other content",
    "timestamp-went-back": "a later change of a row does not have a later timestamp",
    "lost-row-write": "an acknowledged write is not in its row",
    "wrong-condition": "a conditional mutation was applied although its condition did not hold",
    "mark-too-early": "a change not later than a resolved mark is stored after the mark's offsets",
    "index-differs": "an index scan returned other rows than the table has",
    "silent-cut": "offsets that were acknowledged or read vanished, and no event reported it",
    "offset-given-twice": "two messages were acknowledged at one offset, and no event reported it",
    "looks-empty": "a damaged log answered as if it ended before what it was known to have",
    "good-file-deleted": "messages of a file that a manifest named before a fault are in no file",
    "premature-deletion": "retention dropped a message before its time",
    "livelock": "a partition was opened again and again although hardly anybody wanted it",
    "never-answered": "a caller got no reply within the deadline although its server lived",
    "unfair-tenant": "a tenant without faults waited or was refused beside one with faults",
    "refused-for-another": "a put was refused because of another one that storage never takes",
    "too-many-files": "a server had more files of segments open than it may",
    "tenant-leak": "a caller learned of something it had no permission for",
    "stuck-partition": "a call failed although every fault had ended",
    "never-rebalanced": "a partition has no living owner, or a server serves no partition",
    "crowded-topic": "a server has more than its most of a topic's partitions",
    "moved-for-announced-restart": "a partition moved although its server was back in time",
    "not-lent": "a partition waits for a restarting server that lends",
    "not-taken-back": "a lent partition is not its lender's although that server was back in time",
    "moved-by-lending": "a partition moved because another server restarted",
    "stale-schedule": "schedule info still sends clients to the wrong server",
    "forward-loop": "a request was forwarded more than once",
    "verify-fault": "stored files, offsets and manifests disagree",
    "left-behind": "files of a deleted topic still exist",
    "journal-left": "the journal of a former server stays although its partitions can be recovered",
    "unanswered": "a waiter was never called",
    "answered-twice": "a waiter was called twice",
    "unhandled-error": "no code handled an exception",
    "deadlock": "every task waits and no timer is set",
}

PARTITION_CHECKS: tuple[Callable[[LogView], Iterator[Anomaly]], ...] = (
    messages.lost_writes,
    messages.dirty_reads,
    messages.phantoms,
    messages.duplicates,
    messages.corrupt_payloads,
    messages.order_inversions,
    messages.broken_lanes,
    offsets.inconsistent_offsets,
    offsets.offset_gaps,
    offsets.polls,
    offsets.false_out_of_range,
    offsets.unreadable,
    offsets.going_back,
    offsets.stale_reads,
    offsets.times_going_back,
    storage.silent_cuts,
    offsets.looks_empty,
    offsets.offsets_given_twice,
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
    offsets.lost_floors,
    offsets.hidden_writes,
    offsets.deleted_reads,
    workers.stale_commits,
    members.stale_member_commits,
    members.stale_epoch_commits,
    members.replaced_members_commit,
    members.assigned_twice,
    members.lost_member_positions,
    workers.left_workers_listed,
    workers.commits_after_reset,
    workers.lost_checkpoints,
    workers.commits_beyond_read,
    leases.lease_epochs,
    leases.two_lease_holders,
    leases.stale_lease_writes,
    servers.two_writers,
    servers.false_sequence_gaps,
    servers.tenant_leaks,
    metering.meter_drift,
    metering.egress_drift,
    metering.kept_drift,
    servers.stuck_partitions,
    servers.reported,
    cluster.moved_for_announced_restarts,
    cluster.two_leaders,
    cluster.former_leaders,
    lending.loans,
    storage.livelocks,
    storage.never_answered,
    storage.unfair_tenants,
    storage.refused_for_others,
    storage.broken_syncs,
    storage.premature_deletions,
    storage.too_many_files,
)


def check(history: History) -> list[Anomaly]:
    """All anomalies of a history, at most ``REPORTED_MAX`` of each name."""
    found: list[Anomaly] = []
    count: Counter[str] = Counter()
    for anomaly in _all(history):
        if anomaly.name not in ANOMALIES:
            raise ValueError(f"the anomaly {anomaly.name!r} is not in ANOMALIES: {anomaly}")
        count[anomaly.name] += 1
        if count[anomaly.name] <= REPORTED_MAX:
            found.append(anomaly)
    return found


def _all(history: History) -> Iterator[Anomaly]:
    views = log_views(history)
    for view in views:
        for partition_check in PARTITION_CHECKS:
            yield from partition_check(view)
    yield from workers.commits_beyond_end(history, views)
    for table in table_views(history):
        for table_check in TABLE_CHECKS:
            yield from table_check(table)
    for history_check in HISTORY_CHECKS:
        yield from history_check(history)
