"""Plans that take a while, because they are large."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.broker.cluster.controller_bed import ControllerBed, in_control

from opentalos.broker.cluster.control import controller, publication
from opentalos.broker.cluster.state import assignment_path
from opentalos.model.errors import StoreUnavailable
from opentalos.placement import steps
from opentalos.placement.steps import Steps, finished
from opentalos.placement.values import Assignment


def test_a_plan_from_records_that_changed_meanwhile_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A large plan takes a while, in which another controller may write."""
    plans = 0

    async def slowly(steps: Steps[Assignment]) -> Assignment:
        nonlocal plans
        plans += 1
        await asyncio.sleep(1.0)
        return finished(steps)

    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b")
        leader = bed.members[bed.leader()]
        other = bed.members["b" if leader.name == "a" else "a"]
        monkeypatch.setattr(controller, "worked_out", slowly)
        bed.topics["late"] = 12
        leader.controller.wake()
        await bed.until(lambda: plans == 1, 1.0)
        before = bed.records()["topic-0"]
        swapped = replace(before, number=before.number + 1, owners=before.owners[::-1])
        assert swapped.owners != before.owners
        await other.state.assignments.change(assignment_path("topic-0"), lambda _: swapped)
        await bed.until(lambda: "late" in bed.records(), 5.0)
        assert plans == 2
        assert bed.records()["topic-0"].owners == swapped.owners

    in_control(scenario)


def test_many_records_are_written_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publication, "PORTION_MAX", 2)
    monkeypatch.setattr(steps, "ITEMS_A_STEP", 1)

    async def scenario(bed: ControllerBed) -> None:
        await bed.start("a")
        await bed.until(lambda: len(bed.owners()) == 60, 1.0)
        assert set(bed.owners().values()) == {"a"}

    in_control(scenario)


def test_a_record_that_changed_since_the_plan_began_is_not_overwritten() -> None:
    async def scenario(bed: ControllerBed) -> None:
        (a,) = await bed.steady("a")
        published = a.controller.publication
        basis = published.basis()
        before = bed.records()["topic-0"]
        theirs = replace(before, number=before.number + 1, owners=("theirs",) * 12)
        await a.state.assignments.change(assignment_path("topic-0"), lambda _: theirs)
        ours = Assignment(dict.fromkeys(bed.owners(), "ours"), bed.ring().servers)
        with pytest.raises(StoreUnavailable, match="another controller changed"):
            await published.publish(ours, basis)
        assert bed.records()["topic-0"] == theirs

    in_control(scenario)
