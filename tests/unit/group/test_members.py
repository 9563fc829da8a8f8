"""Who works in a group, as seen by those that wait for a change."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping, Sequence

import pytest
from tests.unit.catalog.support import MovableTime
from tests.unit.group.support import (
    ALICE,
    LEASE_S,
    W1,
    W2,
    W3,
    FaultyRows,
    commit,
    open_coordinator,
)

from opentalos.group import members as members_module
from opentalos.group.coordinator import Coordinator
from opentalos.group.members import Members, mark_of
from opentalos.group.state import GroupState

PATIENCE_S = 20.0
NEVER_S = 3_600.0


@pytest.fixture
async def time() -> MovableTime:
    return MovableTime(asyncio.get_running_loop())


@pytest.fixture
async def groups(time: MovableTime, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Coordinator]:
    monkeypatch.setattr(members_module, "WAIT_S_MAX", NEVER_S)
    coordinator = await open_coordinator(FaultyRows())
    yield coordinator
    await coordinator.close()


async def waiting(groups: Coordinator, known: int | None) -> "asyncio.Task[Members]":
    """A call that waits for a change."""
    task = asyncio.create_task(groups.members.changed(ALICE, 4, known, NEVER_S))
    await asyncio.sleep(0.05)
    return task


async def marked(groups: Coordinator) -> int:
    found = await groups.members.changed(ALICE, 4, None, NEVER_S)
    assert found.mark == mark_of(found.holdings)
    assert found.mark is not None
    return found.mark


async def test_a_call_without_a_mark_returns_at_once(groups: Coordinator) -> None:
    await groups.lock_worker(ALICE, W1)
    assert (await groups.members.changed(ALICE, 4, None, NEVER_S)).holdings == {"w1": []}


@pytest.mark.parametrize("change", ["join", "lock", "unlock", "leave", "reset"])
async def test_every_change_wakes_those_that_wait(groups: Coordinator, change: str) -> None:
    await groups.lock_worker(ALICE, W1)
    await groups.lock_partitions(ALICE, W1, [0])
    task = await waiting(groups, await marked(groups))
    assert not task.done()
    match change:
        case "join":
            await groups.lock_worker(ALICE, W2)
        case "lock":
            await groups.lock_partitions(ALICE, W1, [1])
        case "unlock":
            await groups.unlock_partitions(ALICE, W1.worker, [0])
        case "leave":
            await groups.members.vacate(ALICE, W1.worker)
            await groups.unlock_partitions(ALICE, W1.worker, [0])
        case _:
            await groups.reset(ALICE, 0, 3)
    expected = {
        "join": {"w2": [], "w1": [0]},
        "lock": {"w1": [0, 1]},
        "unlock": {"w1": []},
        "leave": {},
        "reset": {"w1": []},
    }
    assert (await asyncio.wait_for(task, PATIENCE_S)).holdings == expected[change]


async def test_a_renewal_and_a_commit_wake_nobody(groups: Coordinator) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    task = await waiting(groups, await marked(groups))
    await groups.renew(ALICE, W1, [0])
    await groups.commit(ALICE, commit("w1", 5))
    await asyncio.sleep(0.3)
    assert not task.done()
    task.cancel()


async def test_a_lease_that_expires_is_a_change(groups: Coordinator, time: MovableTime) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    known = await marked(groups)
    time.advance(LEASE_S)
    found = await groups.members.changed(ALICE, 4, known, NEVER_S)
    assert found.holdings == {}


async def test_a_stopping_server_answers_those_that_wait(groups: Coordinator) -> None:
    await groups.lock_worker(ALICE, W1)
    known = await marked(groups)
    task = await waiting(groups, known)
    groups.members.stop_waiting()
    assert await asyncio.wait_for(task, PATIENCE_S) == Members({"w1": []}, None)
    assert (await groups.members.changed(ALICE, 4, known, NEVER_S)).mark is None


async def test_no_more_than_so_many_wait(
    groups: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members_module, "WAITING_MAX", 1)
    await groups.lock_worker(ALICE, W1)
    known = await marked(groups)
    task = await waiting(groups, known)
    assert (await groups.members.changed(ALICE, 4, known, NEVER_S)).mark is None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await groups.members.changed(ALICE, 4, known, 0.0)).mark == known


async def test_a_group_that_moves_away_wakes_those_that_wait(groups: Coordinator) -> None:
    await groups.lock_worker(ALICE, W1)
    task = await waiting(groups, await marked(groups))
    groups.ownership_changed(lambda name: False)
    # It is read again; the new coordinator knows no worker yet.
    assert (await asyncio.wait_for(task, PATIENCE_S)).holdings == {}


async def test_a_worker_that_registers_while_it_leaves_keeps_its_new_seat(
    groups: Coordinator,
) -> None:
    await groups.lock_partitions(ALICE, W1, [0, 1])
    assert await groups.members.vacate(ALICE, "w1") == [0, 1]
    await groups.lock_worker(ALICE, W1)
    await groups.unlock_partitions(ALICE, "w1", [0, 1])
    assert await groups.holdings(ALICE, 4) == {"w1": []}
    assert await groups.members.vacate(ALICE, "nobody") == []


@pytest.mark.parametrize("seed", range(20))
async def test_holdings_computed_once_are_those_of_now(
    groups: Coordinator, time: MovableTime, seed: int
) -> None:
    """All calls share them until a change or an expiry; no step is missed."""
    draw = random.Random(seed)
    for _ in range(60):
        seat, part = draw.choice([W1, W2, W3]), draw.randrange(4)
        match draw.randrange(7):
            case 0:
                await groups.lock_worker(ALICE, seat)
            case 1:
                await groups.lock_partitions(ALICE, seat, [part])
            case 2:
                await groups.renew(ALICE, seat, [part])
            case 3:
                await groups.unlock_partitions(ALICE, seat.worker, [part])
            case 4:
                await groups.members.vacate(ALICE, seat.worker)
            case 5:
                await groups.commit(ALICE, commit(seat.worker, 0))
            case _:
                time.advance(draw.choice([LEASE_S / 3, LEASE_S]))
        count = draw.choice([4, 4, 4, 2])
        found = await groups.members.changed(ALICE, count, None, 0.0)
        assert found.holdings == await groups.holdings(ALICE, count)


async def test_all_that_wait_share_one_computation(
    groups: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a change costs the same with 2 workers and with 500."""
    await groups.lock_worker(ALICE, W1)
    known = await marked(groups)
    tasks = [await waiting(groups, known) for _ in range(20)]
    computed = 0
    real = GroupState.holdings

    def counted(self: GroupState, now_s: float, partitions: int) -> Mapping[str, Sequence[int]]:
        nonlocal computed
        computed += 1
        return real(self, now_s, partitions)

    monkeypatch.setattr(GroupState, "holdings", counted)
    await groups.lock_partitions(ALICE, W1, [0])
    found = await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE_S)
    assert {str(members.holdings) for members in found} == {"{'w1': [0]}"}
    assert computed == 1
