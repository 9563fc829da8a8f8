"""Who works in a group, as seen by those that wait for a change."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.unit.catalog.support import MovableTime
from tests.unit.group.support import ALICE, LEASE_S, W1, W2, FaultyRows, commit, open_coordinator

from opentalos.group import members as members_module
from opentalos.group.coordinator import Coordinator
from opentalos.group.members import Members, mark_of

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
