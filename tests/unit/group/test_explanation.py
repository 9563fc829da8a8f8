"""Why a group does not move: each cause alone, with its numbers, and their order."""

from typing import Any

import pytest

from opentalos.group.explanation import (
    GRANTS_MAX,
    IDLE_S,
    PARTITIONS_SHOWN_MAX,
    Code,
    Delay,
    Explanation,
    GroupView,
    Level,
    PartitionView,
    Reason,
    State,
    explain,
)


def part(partition: int = 0, **fields: Any) -> PartitionView:
    """Held by a worker that commits; 10 messages, 4 of them processed."""
    given: dict[str, Any] = {"worker": "w", "checkpoint": 3, "next": 10, "idle_s": 1.0}
    return PartitionView(partition=partition, **given | fields)


def explained(*parts: PartitionView, workers: int = 1, **fields: Any) -> Explanation:
    return explain(GroupView(partitions=parts, workers=workers, **fields))


def codes(found: Explanation) -> list[Code]:
    return [reason.code for reason in found.reasons]


def only(found: Explanation) -> Reason:
    (reason,) = found.reasons
    return reason


def test_a_group_that_processed_everything_is_caught_up() -> None:
    found = explained(part(checkpoint=9), part(1, checkpoint=-1, next=0))
    assert (found.state, found.lag, codes(found)) == (State.CAUGHT_UP, 0, [Code.CAUGHT_UP])


def test_damage_is_named_first_and_makes_the_lag_unknown() -> None:
    found = explained(part(), part(1, damage="its journal is rotten"), part(2, unreachable="down"))
    first = found.reasons[0]
    assert (first.code, first.level, list(first.partitions)) == (Code.DAMAGED, Level.ERROR, [1])
    assert "its journal is rotten" in first.text
    assert "talos log verify" in first.advice
    assert (found.lag, found.state) == (None, State.PARTLY_STUCK)
    alone = explained(part(damage="rotten"), workers=0)
    assert (alone.lag, alone.state) == (None, State.STUCK)
    assert Code.CAUGHT_UP not in codes(alone)


def test_a_group_without_workers_says_how_much_waits() -> None:
    found = explained(part(worker=""), part(1, worker="", checkpoint=9), workers=0)
    reason = only(found)
    assert (found.state, reason.code, reason.level) == (
        State.STUCK, Code.NO_WORKERS, Level.ERROR,
    )  # fmt: skip
    assert (reason.partitions, reason.figures) == ([0], {"lag": 6})
    assert "6 messages" in reason.text
    idle = explained(part(worker="", checkpoint=9), workers=0)
    assert (idle.state, codes(idle)) == (State.CAUGHT_UP, [Code.NO_WORKERS, Code.CAUGHT_UP])
    assert idle.reasons[0].level is Level.INFO


def test_a_worker_that_commits_nothing_is_named_with_its_time() -> None:
    found = explained(part(idle_s=95.0, fetches=40), part(1, idle_s=120.0, fetches=3))
    reason = only(found)
    assert (found.state, reason.code) == (State.STUCK, Code.NOT_COMMITTING)
    assert reason.figures == {"lag": 12, "idle_s": 95.0}
    assert "95 s" in reason.text
    assert "although it is read" in reason.text


def test_a_worker_that_does_not_even_read_is_paused_or_busy() -> None:
    reason = only(explained(part(idle_s=40.0, fetches=0), fetches_s=300.0))
    assert reason.code is Code.NOT_READING
    assert "300 s" in reason.text
    unknown = only(explained(part(idle_s=40.0, fetches=None)))
    assert unknown.code is Code.NOT_COMMITTING
    assert "not known" in unknown.text


@pytest.mark.parametrize(("idle_s", "state"), [(IDLE_S - 1, State.MOVING), (IDLE_S, State.STUCK)])
def test_a_pause_between_commits_is_not_yet_a_halt(idle_s: float, state: State) -> None:
    assert explained(part(idle_s=idle_s)).state is state


def test_partitions_that_nobody_took_are_listed() -> None:
    found = explained(part(), part(1, worker=""), part(2, worker="", checkpoint=9))
    assert found.state is State.PARTLY_STUCK
    assert codes(found) == [Code.NOT_HELD, Code.MOVING]
    assert found.reasons[0].partitions == [1]


def test_a_position_outside_the_log_needs_a_reset() -> None:
    expired = only(explained(part(checkpoint=3, start=8)))
    assert expired.code is Code.POSITION_EXPIRED
    assert expired.figures == {"dropped": 4}
    assert "--to start" in expired.advice
    beyond = explained(part(checkpoint=12))
    assert codes(beyond) == [Code.POSITION_BEYOND_END, Code.CAUGHT_UP]
    assert beyond.state is State.STUCK
    nothing_yet = explained(part(checkpoint=-1, start=8))
    assert codes(nothing_yet) == [Code.MOVING]


def test_servers_that_do_not_answer_come_first() -> None:
    found = explained(part(), part(1, unreachable="no reply within 3 s"))
    assert (found.state, codes(found)) == (
        State.PARTLY_STUCK, [Code.SERVER_UNREACHABLE, Code.MOVING],
    )  # fmt: skip
    assert "no reply within 3 s" in found.reasons[0].text
    alone = explained(part(unreachable="gone"))
    assert (alone.state, alone.lag) == (State.UNKNOWN, 0)


def test_a_partition_that_changes_hands_all_the_time_is_a_loop() -> None:
    found = explained(part(grants=GRANTS_MAX + 1))
    assert codes(found) == [Code.REBALANCING, Code.MOVING]
    assert found.reasons[0].figures == {"grants": 4}
    assert codes(explained(part(grants=GRANTS_MAX))) == [Code.MOVING]


def test_a_quota_that_is_used_up_shows_its_limit_and_the_wait() -> None:
    delay = Delay("get bytes of topic t", 1_000, "bytes/s", 2.5)
    found = explained(part(), delays=[delay])
    assert codes(found) == [Code.THROTTLED, Code.MOVING]
    assert found.reasons[0].figures == {"limit": 1_000.0, "wait_s": 2.5}
    assert "1,000 bytes/s" in found.reasons[0].text
    assert codes(explained(part(checkpoint=9), delays=[delay])) == [Code.CAUGHT_UP]


def test_a_group_that_moves_says_when_it_will_be_done_or_that_it_falls_behind() -> None:
    assert "in 3 s" in only(explained(part(), lag_per_s=-2.0)).text
    behind = only(explained(part(), lag_per_s=1.5))
    assert "more arrive than are processed" in behind.text
    assert behind.figures == {"lag": 6, "lag_per_s": 1.5}


def test_long_lists_are_cut_and_counted() -> None:
    reason = only(explained(*(part(number, worker="") for number in range(150)), workers=0))
    assert (len(reason.partitions), reason.partitions_count) == (PARTITIONS_SHOWN_MAX, 150)
