"""Large plans and choices of weights take many short steps, with the same result as at once."""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from opentalos.broker.cluster.control.weight_choice import choosing
from opentalos.model.message import PartitionKey
from opentalos.placement.plan import plan, planning
from opentalos.placement.ring import by_sector
from opentalos.placement.steps import ITEMS_A_STEP, Pace, Steps, finished
from opentalos.placement.values import Assignment, Candidate, Policy, Situation
from opentalos.placement.weights import propose

NAMES = [f"server-{number}" for number in range(40)]
PARTITIONS = [
    PartitionKey(f"topic-{topic}", number) for topic in range(50) for number in range(100)
]
POLICY = Policy(virtual_nodes=64)
NOW_S = 100.0
CALLS_A_STEP_MAX = 16 * ITEMS_A_STEP  # of 0.1 us and more; a step of 3 ms has about 9,000


def situation(names: list[str], before: Assignment | None = None, **more: Any) -> Situation:
    return Situation(
        now_s=NOW_S,
        candidates={name: Candidate(name=name, alive=True, since_s=0.0) for name in names},
        partitions=PARTITIONS,
        owners=before.owners if before else {},
        ring=before.ring if before else {},
        **more,
    )


def calls_of_steps(steps: Steps[Any]) -> list[int]:
    """How many functions each step calls, as a measure of its length."""
    counts: list[int] = []

    def count(_frame: object, event: str, _argument: object) -> None:
        if event in ("call", "c_call"):
            counts[-1] += 1

    former: Callable[..., Any] | None = sys.getprofile()
    try:
        while True:
            counts.append(0)
            sys.setprofile(count)
            try:
                next(steps)
            finally:
                sys.setprofile(former)
    except StopIteration:
        return counts


@pytest.fixture(scope="module")
def placed() -> Assignment:
    return plan(situation(NAMES), POLICY)


def test_all_partitions_are_placed_in_short_steps() -> None:
    counts = calls_of_steps(planning(situation(NAMES), POLICY))
    assert len(counts) > 10
    assert max(counts) < CALLS_A_STEP_MAX


@pytest.mark.parametrize("change", ["crash", "join", "weights"])
def test_a_change_is_planned_in_short_steps(placed: Assignment, change: str) -> None:
    after = {
        "crash": situation(NAMES[1:], placed),
        "join": situation([*NAMES, "joins", "joins-too"], placed),
        "weights": situation(NAMES, placed, weights={NAMES[0]: 16, NAMES[1]: 200}),
    }[change]
    counts = calls_of_steps(planning(after, POLICY))
    assert len(counts) > 10
    assert max(counts) < CALLS_A_STEP_MAX
    assert finished(planning(after, POLICY)) == plan(after, POLICY)


def test_weights_are_chosen_in_short_steps(placed: Assignment) -> None:
    days = [{key: (key.partition * 7919 + day) % 101 for key in PARTITIONS} for day in range(7)]
    ring = {name: by_sector(placed.ring[name]) for name in NAMES}
    counts = calls_of_steps(choosing(days, ring, placed.owners, moves_max=3))
    assert len(counts) > 20
    assert max(counts) < CALLS_A_STEP_MAX


def test_a_small_plan_takes_one_step() -> None:
    few = Situation(
        now_s=NOW_S,
        candidates={name: Candidate(name=name, alive=True, since_s=0.0) for name in NAMES[:3]},
        partitions=PARTITIONS[:12],
        owners={},
    )
    assert len(calls_of_steps(planning(few, POLICY))) == 1


def test_the_pace_counts_from_each_step_on() -> None:
    pace = Pace()
    assert [pace.due(ITEMS_A_STEP // 2) for _ in range(4)] == [False, True, False, True]
    assert pace.due(5 * ITEMS_A_STEP)


def test_steps_that_are_finished_at_once_propose_the_same(placed: Assignment) -> None:
    few = dict.fromkeys(PARTITIONS[:200], 1) | {PARTITIONS[0]: 90}
    ring = {name: by_sector(32) for name in NAMES[:4]}
    owners = {key: NAMES[number % 4] for number, key in enumerate(few)}
    steps = choosing([few], ring, owners, moves_max=10)
    assert finished(steps) == propose(few, ring, owners, moves_max=10)
