"""Checks of members of Kafka groups: who may commit, and who has a partition (promise I5).

Members join in generations, or are assigned partitions by the server and learn that from the
answers to their heartbeats. What a member was given it has until it says otherwise, or its
coordinator, which keeps members in memory only, does not know it any more.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from opentalos.testing.simulation.checks.anomaly import Anomaly
from opentalos.testing.simulation.checks.group.workers import GroupPartition, is_late
from opentalos.testing.simulation.checks.view.log_view import deleted_topics
from opentalos.testing.simulation.history import History, Operation

_JOINS = 0  # the epoch of a heartbeat that joins; that of one that leaves is below


def stale_member_commits(history: History) -> Iterator[Anomaly]:
    """Two members of a Kafka group committed in turn, and the second had not joined in between.

    A commit proves that its member had the partition, and only a later join gives it to another.
    """
    deleted = deleted_topics(history)
    joins: dict[tuple[str, str], list[Operation]] = defaultdict(list)
    for join in history.of("member-join"):
        if join.may_be_done:
            joins[join.process, join.args["group"]].append(join)
    accepted: dict[GroupPartition, list[Operation]] = defaultdict(list)
    for commit in history.of("member-commit"):
        if commit.ok and not is_late(commit, deleted):
            args = commit.args
            key = GroupPartition(args["group"], args["topic"], args["partition"])
            accepted[key].append(commit)
    for key, commits in accepted.items():
        for commit in commits:
            asked = [
                join.ended_s if join.ok else float("inf")
                for join in joins[commit.process, key.group]
                if join.began_s < commit.ended_s
            ]
            since_s = max(asked, default=float("-inf"))
            for other in commits:
                if (
                    other.process != commit.process
                    and since_s < other.began_s
                    and other.ended_s < commit.began_s
                ):
                    yield Anomaly("stale-commit", f"{key}: {other}, and then {commit}")


# --- assignments by the server -------------------------------------------------------------------


def stale_epoch_commits(history: History) -> Iterator[Anomaly]:
    """A commit was accepted in another epoch than its coordinator had answered last."""
    beats = _beats(history)
    for commit in history.of("assigned-commit"):
        if not commit.ok:
            continue
        asked = [beat for beat in beats[commit.process] if beat.began_s < commit.ended_s]
        if any(beat.may_be_done and not beat.ok for beat in asked):
            continue  # nobody knows which epoch it answered
        by = commit.result["by"]
        answered = [beat for beat in asked if beat.ok and beat.result["by"] == by]
        before = [beat for beat in answered if beat.ended_s < commit.began_s]
        possible = before[-1:] + [beat for beat in answered if beat.ended_s >= commit.began_s]
        if commit.args["epoch"] not in [beat.result["epoch"] for beat in possible]:
            shown = possible[0] if possible else "it was no member there"
            yield Anomaly("stale-commit", f"{shown}, but then {commit}")


def replaced_members_commit(history: History) -> Iterator[Anomaly]:
    """A commit was accepted after one of a member that was given the partition later."""
    beats = _beats(history)
    accepted: dict[GroupPartition, list[Operation]] = defaultdict(list)
    for commit in history.of("assigned-commit"):
        if commit.ok:
            accepted[_key(commit, commit.args["partition"])].append(commit)
    for key, commits in accepted.items():
        for commit in commits:
            for other in commits:
                if other.ended_s < commit.began_s and _given_after(
                    beats, other, commit, commit.ended_s
                ):
                    yield Anomaly("stale-commit", f"{key}: {other}, but then {commit}")


def assigned_twice(history: History) -> Iterator[Anomaly]:
    """A coordinator gave a partition to a member while another one certainly had it."""
    tenures: dict[tuple[GroupPartition, str], list[_Tenure]] = defaultdict(list)
    for beats in _beats(history).values():
        for tenure in _tenures(beats):
            tenures[tenure.key, tenure.by].append(tenure)
    for (key, _), held in tenures.items():
        for tenure in held:
            for other in held:
                if other.member != tenure.member and tenure.covers(other.given):
                    text = f"{key}: {tenure.given} until {tenure.last}, but {other.given}"
                    yield Anomaly("assigned-twice", text)


@dataclass(slots=True)
class _Tenure:
    """What a member was given by a server, and the last answer that found it a member there."""

    member: str
    key: GroupPartition
    given: Operation
    last: Operation

    @property
    def by(self) -> str:
        return str(self.given.result["by"])

    def covers(self, given: Operation) -> bool:
        """Whether something was given to another member meanwhile."""
        return self.given.ended_s < given.began_s and given.ended_s < self.last.began_s


def _tenures(beats: Iterable[Operation]) -> Iterator[_Tenure]:
    """Of one member, in the order of its heartbeats; each was sent after the one before ended.

    A heartbeat without an answer may be heard at any time later, so nothing is certain any more
    after one that gives something back.
    """
    held: dict[int, _Tenure] = {}
    for beat in beats:
        owned, ends = beat.args["owned"], beat.args["epoch"] <= _JOINS
        if not beat.may_be_done:
            continue  # it was not heard, or the member joins again next
        left = [number for number in held if ends or (owned is not None and number not in owned)]
        for number in left:
            yield held.pop(number)
        if not beat.ok and (ends or owned is not None):
            break
        if not beat.ok:
            continue
        for tenure in held.values():
            if tenure.by == beat.result["by"]:
                tenure.last = beat
        given = beat.result["assignment"]
        if given is None:
            continue
        for number in given:
            known = held.get(number)
            if known is not None and known.by == beat.result["by"]:
                continue
            if known is not None:
                yield known
            key = GroupPartition(beat.args["group"], beat.args["topic"], number)
            held[number] = _Tenure(beat.process, key, beat, beat)
    yield from held.values()


def lost_member_positions(history: History) -> Iterator[Anomaly]:
    """A group continues where no commit put it, or where one did that a later one replaced.

    Later is also the commit of a member that was given the partition after the other one could be.
    """
    beats = _beats(history)
    commits: dict[GroupPartition, list[Operation]] = defaultdict(list)
    for commit in history.of("assigned-commit"):
        if commit.may_be_done:
            commits[_key(commit, commit.args["partition"])].append(commit)
    for look in history.of("assigned-positions"):
        if not look.ok:
            continue
        found = dict(look.result["offsets"])
        asked = {key for key in commits if key[:2] == (look.args["group"], look.args["topic"])}
        asked |= {_key(look, number) for number in found}
        for key in sorted(asked):
            offset = found.get(key.partition)
            if not _explained(beats, commits[key], look, offset):
                text = f"{key}: no commit explains {offset}: {look}"
                yield Anomaly("lost-checkpoint", text)


def _explained(
    beats: Mapping[str, list[Operation]],
    commits: list[Operation],
    look: Operation,
    offset: int | None,
) -> bool:
    done = [each for each in commits if each.ok and each.ended_s < look.began_s]
    if offset is None:
        return not done
    return any(
        commit.args["offset"] == offset
        and commit.began_s < look.ended_s
        and not any(_replaces(beats, later, commit, look.ended_s) for later in done)
        for commit in commits
    )


def _replaces(
    beats: Mapping[str, list[Operation]], later: Operation, commit: Operation, now_s: float
) -> bool:
    """Whether a commit was certainly stored after another one, if that was stored at all."""
    if commit.ok and commit.ended_s < later.began_s:
        return True
    return _given_after(beats, later, commit, commit.ended_s if commit.ok else now_s)


def _given_after(
    beats: Mapping[str, list[Operation]], later: Operation, commit: Operation, until_s: float
) -> bool:
    """Whether the member of one commit was given the partition after that of the other one could
    be, until ``until_s`` for the last time."""
    if commit.process == later.process:
        return False
    partition = commit.args["partition"]
    asked = [
        beat.ended_s if beat.ok else float("inf")
        for beat in beats[commit.process]
        if beat.began_s < until_s and beat.may_be_done
        if not beat.ok or _gives(beat, partition)
    ]
    since_s = max(asked, default=float("-inf"))
    return any(
        beat.ok
        and _gives(beat, partition)
        and since_s < beat.began_s
        and beat.ended_s < later.began_s
        for beat in beats[later.process]
    )


def _gives(beat: Operation, partition: int) -> bool:
    given = beat.result["assignment"]
    return given is not None and partition in given


def _beats(history: History) -> Mapping[str, list[Operation]]:
    """Heartbeats by member, which keeps one id for life."""
    found: dict[str, list[Operation]] = defaultdict(list)
    for beat in history.of("assigned-beat"):
        found[beat.process].append(beat)
    return found


def _key(operation: Operation, partition: int) -> GroupPartition:
    return GroupPartition(operation.args["group"], operation.args["topic"], partition)
