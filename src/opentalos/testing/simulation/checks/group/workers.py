"""Checks of groups of workers: only the lease holder commits, and commits are kept (promise I5)."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.checks.view.log_view import LogView, deleted_topics, rival_servers
from opentalos.testing.simulation.history import History, Operation, PartitionName

LEASE_S = 30.0  # unless the history's settings say otherwise


class GroupPartition(NamedTuple):
    """What a lease and a checkpoint belong to."""

    group: str
    topic: str
    partition: int


def stale_commits(history: History) -> Iterator[Anomaly]:
    """A commit was accepted from a worker while another worker certainly held the lease.

    Replies of two stand-alone servers on one storage, which only a lock file forbids, are not
    evidence of a lease: each extends leases in memory, and the other grants the partition when
    the lease that it knows has expired.
    """
    lease_s = LEASE_S
    for note in history.noted("settings"):
        lease_s = float(note.args.get("lease_s", LEASE_S))
    changes = _by_key(history, "lock", "unlock", "commit", "reset")
    deleted = deleted_topics(history)
    rivals = rival_servers(history)
    others = [each for each in history.of("leave") if each.may_be_done]
    others += [each for each in renewals(history) if each.args.get("server") not in rivals]
    for key, operations in changes.items():
        locks = [each for each in operations if each.action == "lock"]
        for commit in operations:
            if commit.action != "commit" or not commit.ok or is_late(commit, deleted):
                continue
            worker = commit.args["worker"]
            asked = [
                lock
                for lock in locks
                if lock.args["worker"] == worker
                and lock.may_be_done
                and lock.began_s < commit.ended_s
            ]
            if not asked:
                yield Anomaly(
                    "stale-commit", f"{key}: {worker} never requested the lease: {commit}"
                )
                continue
            for lock in locks:
                if (
                    lock.ok
                    and lock.args["worker"] != worker
                    and lock.args.get("server") not in rivals
                ):
                    ended_s = _certain_until(key, lock, operations, others, lease_s)
                    if lock.ended_s < commit.began_s and commit.ended_s < ended_s:
                        yield Anomaly("stale-commit", f"{key}: {lock} held the lease: {commit}")


def renewals(history: History) -> list[Operation]:
    """Those that extend a lease whoever is asked next: a group has one coordinator."""
    return [each for each in history.of("renew") if each.ok]


def _certain_until(
    key: GroupPartition,
    lock: Operation,
    operations: Iterable[Operation],
    others: Iterable[Operation],
    lease_s: float,
) -> float:
    """Until when the lock's worker certainly holds the lease.

    An unlock without a reply may still be in flight when its worker locks again.

    Args: others: renewals and leaves, which concern more than one partition.
    """
    worker, server = lock.args["worker"], lock.args.get("server")
    until_s = lock.began_s + lease_s
    of_worker = [each for each in others if _is_of(each, key, worker)]
    for renewal in of_worker:
        if (
            renewal.action == "renew"
            and renewal.args.get("server") == server
            and key.partition in renewal.args["partitions"]
            and key.partition not in renewal.result.get("failed", ())
            and lock.ended_s < renewal.began_s
            and renewal.ended_s < until_s
        ):
            until_s = renewal.began_s + lease_s
    leaves = [each for each in of_worker if each.action == "leave"]
    for each in (*operations, *leaves):
        gives_up = each.action in ("unlock", "leave") and each.args["worker"] == worker
        on_its_way = each.may_be_done and not each.ok
        if (gives_up or each.action == "reset") and (each.ended_s > lock.began_s or on_its_way):
            until_s = min(until_s, max(each.began_s, lock.began_s))
    return until_s


def _is_of(operation: Operation, key: GroupPartition, worker: str) -> bool:
    args = operation.args
    return (args["group"], args["topic"], args["worker"]) == (key.group, key.topic, worker)


def left_workers_listed(history: History) -> Iterator[Anomaly]:
    """A server listed a worker after its leave, which that server had answered.

    Nothing is said of workers that used other servers as well: these may have granted leases.
    """
    rivals = rival_servers(history)
    by_worker: dict[tuple[str, str, str], list[Operation]] = defaultdict(list)
    for each in history.of("lock", "renew", "leave"):
        by_worker[each.args["group"], each.args["topic"], each.args["worker"]].append(each)
    for look in history.of("workers"):
        args = look.args
        if not look.ok or args["server"] in rivals:
            continue
        for worker in look.result["workers"]:
            asked = by_worker[args["group"], args["topic"], worker]
            leaves = [
                each
                for each in asked
                if each.action == "leave" and each.ok and each.ended_s < look.began_s
            ]
            if leaves and not _rejoins(asked, leaves[-1], look):
                yield Anomaly("left-worker-listed", f"{worker}: {leaves[-1]}, but then {look}")


def _rejoins(asked: Iterable[Operation], leave: Operation, look: Operation) -> bool:
    """Whether one of a worker's calls may have joined it again, or reached another server."""
    for each in asked:
        elsewhere = each.may_be_done and each.args["server"] != look.args["server"]
        on_its_way = each.may_be_done and not each.ok
        after = each.ended_s > leave.began_s and each.began_s < look.ended_s
        if elsewhere or (each.action != "leave" and (after or on_its_way)):
            return True
    return False


def commits_after_reset(history: History) -> Iterator[Anomaly]:
    """A commit was accepted from a worker whose lease a reset revoked, without a new lock."""
    renewals = [each for each in history.of("renew") if each.may_be_done]
    for key, operations in _by_key(history, "lock", "commit", "reset").items():
        resets = [each for each in operations if each.action == "reset" and each.ok]
        for commit in operations if resets else ():
            before = [each for each in resets if each.ended_s < commit.began_s]
            if commit.action != "commit" or not commit.ok or not before:
                continue
            reset = before[-1]
            takes = [each for each in operations if each.action == "lock" and each.may_be_done]
            takes += [each for each in renewals if _renews(each, key)]
            if not any(
                each.args["worker"] == commit.args["worker"]
                and each.ended_s > reset.began_s
                and each.began_s < commit.ended_s
                for each in takes
            ):
                yield Anomaly("stale-commit", f"{key}: {reset} revoked the lease: {commit}")


def _renews(renewal: Operation, key: GroupPartition) -> bool:
    args = renewal.args
    return (args["group"], args["topic"]) == key[:2] and key.partition in args["partitions"]


def lost_checkpoints(history: History) -> Iterator[Anomaly]:
    """A query returned a checkpoint that was never set, or that a later commit had replaced."""
    deleted = deleted_topics(history)
    for key, operations in _by_key(history, "commit", "reset", "checkpoint").items():
        writes = [each for each in operations if each.action != "checkpoint" and each.may_be_done]
        for query in operations:
            if query.action != "checkpoint" or not query.ok or is_late(query, deleted):
                continue
            if not _explained(query, writes):
                yield Anomaly("lost-checkpoint", f"{key}: no commit explains it: {query}")


def _explained(query: Operation, writes: list[Operation]) -> bool:
    found = int(query.result["offset"])
    # Writes that had certainly happened; only those that none of them followed can be current.
    done = [write for write in writes if write.ok and write.ended_s < query.began_s]
    if found == -1 and not done:
        return True
    last_began_s = max((write.began_s for write in done), default=float("-inf"))
    for write in writes:
        started = write.began_s < query.ended_s
        replaced = write.ok and write.ended_s < last_began_s
        if int(write.args["offset"]) == found and started and not replaced:
            return True
    return False


def commits_beyond_end(history: History, views: Iterable[LogView]) -> Iterator[Anomaly]:
    """A commit was accepted beyond the last message that can have been in the log."""
    by_name: dict[PartitionName, list[LogView]] = defaultdict(list)
    for view in views:
        by_name[view.name].append(view)
    began_s = {name: _puts_began_s(found[0]) for name, found in by_name.items()}
    for commit in history.of("commit"):
        if not commit.ok:
            continue
        name = PartitionName(commit.args["topic"], commit.args["partition"])
        sent = bisect_left(began_s.get(name, ()), commit.ended_s)
        final = [view for view in by_name.get(name, ()) if view.final is not None]
        beyond = int(commit.args["offset"]) + 1 > sent
        if final and len(by_name[name]) == 1 and not beyond and not final[0].damaged:
            beyond = int(commit.args["offset"]) + 1 > final[0].final_next
        if beyond:
            yield Anomaly("commit-beyond-end", f"the log had at most {sent} messages: {commit}")


def _puts_began_s(view: LogView) -> list[float]:
    """When each message that may be in the log was sent, in this order."""
    attempts = view.attempts.values()
    return sorted(put.began_s for puts in attempts for put in puts if put.may_be_done)


def commits_beyond_read(history: History) -> Iterator[Anomaly]:
    """A worker committed an offset beyond what the polls of its session had delivered."""
    # When each began, in this order, and the last offset that was delivered by then.
    began_s: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    reached: dict[tuple[str, str, int], list[int]] = defaultdict(list)
    for poll in history.of("poll"):
        if poll.ok and poll.result.get("blocks"):
            base, ids = poll.result["blocks"][-1]
            key = (poll.process, poll.args["topic"], poll.args["partition"])
            began_s[key].append(poll.began_s)
            before = reached[key][-1] if reached[key] else -1
            reached[key].append(max(before, base + len(ids) - 1))
    for commit in history.of("commit"):
        key = (commit.process, commit.args["topic"], commit.args["partition"])
        if not commit.ok or key not in began_s:
            continue
        earlier = bisect_left(began_s[key], commit.ended_s)
        last = reached[key][earlier - 1] if earlier else -1
        if int(commit.args["offset"]) > last:
            yield Anomaly("commit-beyond-read", f"its polls delivered up to {last}: {commit}")


def is_late(operation: Operation, deleted: Mapping[str, Operation]) -> bool:
    """Whether its topic may have been deleted by then: a server that does not know that yet
    continues and finds no records."""
    deletion = deleted.get(operation.args["topic"])
    return deletion is not None and deletion.began_s < operation.ended_s


def _by_key(history: History, *actions: str) -> dict[GroupPartition, list[Operation]]:
    found: dict[GroupPartition, list[Operation]] = defaultdict(list)
    for operation in history.of(*actions):
        args = operation.args
        found[GroupPartition(args["group"], args["topic"], args["partition"])].append(operation)
    return found
