"""Restarts that lend: what the controller gives away, takes back, and when it gives up."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.broker.cluster.controller_bed import LIMITS, ControllerBed, in_control

from opentalos.broker.cluster.records import LeavingKind
from opentalos.broker.cluster.state import assignment_path, put_record


def test_a_lending_restart_gives_its_partitions_away_and_gets_exactly_them_back() -> None:
    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b", "c")
        before, ring = bed.owners(), bed.ring()
        for name in "abc":  # the controller among them
            mine = {key for key, owner in before.items() if owner == name}
            member = bed.members[name]
            await member.announce(LeavingKind.LEND)
            await bed.until(lambda mine=mine: bed.lent().keys() == mine, 5)  # type: ignore[misc]
            assert name not in bed.owners().values()
            assert {key for key, owner in bed.owners().items() if owner != before[key]} == mine
            assert bed.lent() == dict.fromkeys(mine, name)
            await member.end()
            await asyncio.sleep(5)
            (member,) = await bed.start(name)
            await asyncio.sleep(3)
            assert name not in bed.owners().values()  # it is there and does not serve yet
            await member.take_back()
            await bed.until(lambda: bed.owners() == before and not bed.moving(), 5)
            assert not bed.lent()
            assert not bed.leaving()
        assert bed.ring() == ring

    in_control(scenario)


def test_a_loan_that_is_published_while_a_plan_begins_is_kept() -> None:
    """By a controller that was replaced and does not know it, say."""

    async def scenario(bed: ControllerBed) -> None:
        await bed.steady("a", "b", "c")
        leader = bed.members[bed.leader()]
        controller: Any = leader.controller
        key = next(key for key, owner in bed.owners().items() if owner == "a")
        read = controller._refresh_absent

        async def publish(*args: Any) -> None:
            await read(*args)
            controller._refresh_absent = read
            record = bed.records()[key.topic_uuid]
            lent = replace(record, number=record.number + 1, lent={str(key.partition): "b"})
            await put_record(leader.state.assignments, assignment_path(key.topic_uuid), lent)

        controller._refresh_absent = publish
        controller.wake()
        await bed.until(lambda: bed.owners()[key] == "b", 5)

    in_control(scenario)


def test_a_lender_that_never_returns_is_given_up() -> None:
    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        await b.announce(LeavingKind.LEND, wait_s=20.0)
        await bed.until(lambda: "b" not in bed.owners().values(), 5)
        await b.end()
        await asyncio.sleep(19)
        assert bed.lent()
        assert "b" in bed.ring().servers
        await bed.until(lambda: not bed.leaving() and not bed.lent(), 3)
        assert "b" not in bed.ring().servers

    in_control(scenario)


@pytest.mark.parametrize("back", [False, True])
def test_a_lender_that_does_not_serve_again_is_given_its_partitions(back: bool) -> None:
    """It announced and did not stop, or is back and never ready: the bound ends the loans."""

    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        before = bed.owners()
        await b.announce(LeavingKind.LEND)
        await bed.until(lambda: "b" not in bed.owners().values(), 5)
        if back:
            await b.end()
            await bed.start("b")
        await asyncio.sleep(50)
        assert bed.lent()
        await bed.until(lambda: bed.owners() == before, 15)
        assert not bed.leaving()

    in_control(scenario)


def test_what_a_dead_borrower_had_is_served_and_returns_to_its_lender() -> None:
    async def scenario(bed: ControllerBed) -> None:
        a, b, _ = await bed.steady("a", "b", "c")
        mine = {key for key, owner in bed.owners().items() if owner == "b"}
        await b.announce(LeavingKind.LEND)
        await bed.until(lambda: "b" not in bed.owners().values(), 5)
        await b.end()
        a.crash()
        await bed.until(lambda: set(bed.owners().values()) == {"c"}, 2)
        (b,) = await bed.start("b")
        await b.take_back()
        await bed.until(lambda: mine <= {k for k, owner in bed.owners().items() if owner == "b"}, 5)

    in_control(scenario)


def test_a_lender_that_crashes_while_it_stops_is_replaced_at_once() -> None:
    async def scenario(bed: ControllerBed) -> None:
        _, b, _ = await bed.steady("a", "b", "c")
        before = bed.owners()
        await b.announce(LeavingKind.LEND)
        b.crash()
        await bed.until(lambda: "b" not in bed.owners().values(), 1.0)
        b.meta.expire()
        (b,) = await bed.start("b")
        await b.take_back()
        await bed.until(lambda: bed.owners() == before, 2 * LIMITS.stable_after_s + 5)

    in_control(scenario)


def test_hundreds_of_partitions_are_lent_within_the_time_of_a_stop() -> None:
    """200 a second with 64 moves at once: 700 in the 3.5 s that a stop has for it by default."""
    limits = replace(LIMITS, moves_at_once=64)

    async def scenario(bed: ControllerBed) -> None:
        bed.topics.clear()
        bed.topics.update({f"topic-{number}": 100 for number in range(12)})
        _, b, _ = await bed.steady("a", "b", "c")
        count = list(bed.owners().values()).count("b")
        await b.announce(LeavingKind.LEND)
        await bed.until(lambda: len(bed.lent()) == count and not bed.moving(), count / 200)

    in_control(scenario, limits)
