"""Restarts, other coordinators and stores that fail."""

import asyncio

import pytest
from tests.unit.catalog.support import MovableTime
from tests.unit.group.support import (
    ALICE,
    BOB,
    LEASE_S,
    W1,
    W2,
    FaultyRows,
    checkpoint,
    commit,
    open_coordinator,
    tenants,
)

from opentalos.adapters.memory import MemoryStorage
from opentalos.group.row_writer import UNKNOWN_ATTEMPTS_MAX
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable


@pytest.fixture
async def time() -> MovableTime:
    return MovableTime(asyncio.get_running_loop())


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opentalos.group.row_writer.UNKNOWN_PAUSE_S", 0.0)


async def test_leases_found_after_a_restart_are_live_for_a_full_lease(time: MovableTime) -> None:
    rows = FaultyRows()
    former = await open_coordinator(rows)
    await former.lock_partitions(ALICE, W1, [0, 1])
    await former.commit(ALICE, commit("w1", 5))
    time.advance(LEASE_S * 0.9)
    groups = await open_coordinator(rows, first_token=100)
    time.advance(LEASE_S * 0.9)
    assert await groups.holdings(ALICE, 8) == {"w1": [0, 1]}
    assert await groups.lock_partitions(ALICE, W2, [0]) == []
    assert await groups.renew(ALICE, W1, [0]) == []
    assert await groups.commit(ALICE, commit("w1", 6))
    time.advance(LEASE_S * 0.2)
    assert await groups.lock_partitions(ALICE, W2, [0, 1]) == [1]
    assert await checkpoint(groups, ALICE, 0) == 6


async def test_the_tenant_of_a_group_survives_a_restart(time: MovableTime) -> None:
    rows = FaultyRows()
    await (await open_coordinator(rows)).lock_worker(ALICE, W1)
    groups = await open_coordinator(rows, first_token=100)
    await groups.lock_worker(BOB, W2)
    assert await tenants(groups, "u1") == {"bob/g": "bob", "g": "alice"}


async def test_a_released_partition_is_free_after_a_restart(time: MovableTime) -> None:
    rows = FaultyRows()
    former = await open_coordinator(rows)
    await former.lock_partitions(ALICE, W1, [0])
    await former.unlock_partitions(ALICE, "w1", [0])
    groups = await open_coordinator(rows, first_token=100)
    assert await groups.lock_partitions(ALICE, W2, [0]) == [0]


async def test_a_zombie_coordinator_can_neither_commit_nor_grant(time: MovableTime) -> None:
    storage = MemoryStorage()
    zombie = await open_coordinator(FaultyRows(storage))
    await zombie.lock_partitions(ALICE, W1, [0])
    await zombie.commit(ALICE, commit("w1", 5))
    successor = await open_coordinator(FaultyRows(storage), first_token=100)
    time.advance(LEASE_S + 1)
    assert await successor.lock_partitions(ALICE, W2, [0, 1]) == [0, 1]
    await zombie.renew(ALICE, W1, [0])
    assert not await zombie.commit(ALICE, commit("w1", 6))
    assert await zombie.lock_partitions(ALICE, W1, [0, 1]) == []
    assert await successor.commit(ALICE, commit("w2", 7))
    assert await checkpoint(successor, ALICE, 0) == 7


async def test_a_commit_in_flight_ends_before_the_partition_changes_hands(
    time: MovableTime,
) -> None:
    rows = FaultyRows()
    groups = await open_coordinator(rows)
    await groups.lock_partitions(ALICE, W1, [0])
    rows.meanwhile = lambda: time.advance(LEASE_S + 1)
    committed, granted = await asyncio.gather(
        groups.commit(ALICE, commit("w1", 5)), groups.lock_partitions(ALICE, W2, [0])
    )
    assert (committed, granted) == (True, [0])
    assert await checkpoint(groups, ALICE, 0) == 5
    assert not await groups.commit(ALICE, commit("w1", 6))


@pytest.mark.parametrize("fault", ["apply_then_unknown", "unknown"])
async def test_a_write_of_unknown_outcome_is_repeated_identically(
    fault: str, time: MovableTime
) -> None:
    rows = FaultyRows()
    groups = await open_coordinator(rows)
    setattr(rows, fault, 1)
    await groups.lock_worker(ALICE, W1)
    setattr(rows, fault, 2)
    assert await groups.lock_partitions(ALICE, W1, [0]) == [0]
    setattr(rows, fault, UNKNOWN_ATTEMPTS_MAX)
    assert await groups.commit(ALICE, commit("w1", 5))
    assert await groups.commit(ALICE, commit("w1", 6))
    assert await checkpoint(groups, ALICE, 0) == 6


@pytest.mark.parametrize(("fault", "stored"), [("apply_then_unknown", 5), ("unknown", -1)])
async def test_a_commit_that_stays_unknown_says_so_and_is_read_again(
    fault: str, stored: int, time: MovableTime
) -> None:
    rows = FaultyRows()
    groups = await open_coordinator(rows)
    await groups.lock_partitions(ALICE, W1, [0])
    setattr(rows, fault, UNKNOWN_ATTEMPTS_MAX + 1)
    with pytest.raises(OutcomeUnknown):
        await groups.commit(ALICE, commit("w1", 5))
    assert await checkpoint(groups, ALICE, 0) == stored
    assert await groups.commit(ALICE, commit("w1", 6))


async def test_a_refusal_of_the_repeat_does_not_make_an_unknown_write_undone(
    time: MovableTime,
) -> None:
    rows = FaultyRows()
    groups = await open_coordinator(rows)
    await groups.lock_partitions(ALICE, W1, [0])
    rows.script = ["apply_then_unknown", "unavailable"]
    assert await groups.commit(ALICE, commit("w1", 5))
    assert await checkpoint(groups, ALICE, 0) == 5


async def test_an_unknown_commit_that_was_overtaken_stays_unknown(time: MovableTime) -> None:
    rows = FaultyRows()
    groups = await open_coordinator(rows)
    await groups.lock_partitions(ALICE, W1, [0])

    def overtake() -> None:
        table = rows.storage.tables["groups"]
        key = max(table)
        table[key] = table[key]._replace(version=table[key].version + 1, write_id=b"other")

    rows.script = ["apply_then_unknown"]
    rows.meanwhile = lambda: setattr(rows, "meanwhile", overtake)
    with pytest.raises(OutcomeUnknown):
        await groups.commit(ALICE, commit("w1", 5))
    assert await checkpoint(groups, ALICE, 0) == 5


async def test_a_refused_write_is_not_done(time: MovableTime) -> None:
    rows = FaultyRows()
    groups = await open_coordinator(rows)
    rows.unavailable = 1
    with pytest.raises(StoreUnavailable):
        await groups.lock_worker(ALICE, W1)
    assert await tenants(groups, "u1") == {}
    await groups.lock_partitions(ALICE, W1, [0])
    rows.unavailable = 1
    with pytest.raises(StoreUnavailable):
        await groups.commit(ALICE, commit("w1", 5))
    assert await checkpoint(groups, ALICE, 0) == -1
    rows.unavailable = 1
    assert await groups.lock_partitions(ALICE, W1, [1]) == []
    assert await groups.holdings(ALICE, 8) == {"w1": [0]}


async def test_a_grant_of_unknown_outcome_is_not_reported_and_not_given_to_another(
    time: MovableTime,
) -> None:
    rows = FaultyRows()
    groups = await open_coordinator(rows)
    await groups.lock_worker(ALICE, W1)
    rows.apply_then_unknown = UNKNOWN_ATTEMPTS_MAX + 1
    assert await groups.lock_partitions(ALICE, W1, [0]) == []
    assert await groups.lock_partitions(ALICE, W2, [0]) == []
    assert await groups.lock_partitions(ALICE, W1, [0]) == [0]


async def test_commits_that_queue_during_a_write_share_the_next_call(time: MovableTime) -> None:
    rows = FaultyRows()
    groups = await open_coordinator(rows)
    await groups.lock_partitions(ALICE, W1, range(64))
    rows.calls.clear()
    done = await asyncio.gather(
        *(groups.commit(ALICE, commit("w1", 5, partition=partition)) for partition in range(64))
    )
    assert all(done)
    assert sum(rows.calls) == 64
    assert len(rows.calls) <= 2


async def test_commits_of_one_partition_keep_their_order(time: MovableTime) -> None:
    groups = await open_coordinator(FaultyRows())
    await groups.lock_partitions(ALICE, W1, [0])
    done = await asyncio.gather(
        *(groups.commit(ALICE, commit("w1", offset, last=offset - 1)) for offset in range(20))
    )
    assert all(done)
    assert await checkpoint(groups, ALICE, 0) == 19


async def test_a_topics_rows_are_read_once_even_for_many_callers(time: MovableTime) -> None:
    rows = FaultyRows()
    await (await open_coordinator(rows)).lock_worker(ALICE, W1)
    groups = await open_coordinator(rows, first_token=100)
    rows.scans = 0
    await asyncio.gather(*(groups.progress.checkpoint(ALICE, 0) for _ in range(20)))
    assert rows.scans == 1


async def test_a_group_deletion_that_was_cut_short_can_be_repeated(time: MovableTime) -> None:
    rows = FaultyRows()
    groups = await open_coordinator(rows)
    await groups.lock_partitions(ALICE, W1, range(4))
    await groups.commit(ALICE, commit("w1", 5))
    time.advance(LEASE_S + 1)
    rows.unavailable = 1
    with pytest.raises(StoreUnavailable):
        await groups.directory.delete_group(ALICE)
    assert await tenants(groups, "u1") == {"g": "alice"}
    await groups.directory.delete_group(ALICE)
    assert await rows.scan("groups", b"", b"", limit=10) == []


async def test_a_closed_coordinator_refuses(time: MovableTime) -> None:
    groups = await open_coordinator(FaultyRows())
    await groups.close()
    with pytest.raises(StoreUnavailable):
        await groups.lock_worker(ALICE, W1)


async def test_closing_gives_up_writes_that_hang(
    time: MovableTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.group.row_writer.CLOSE_S", 0.0)
    rows = FaultyRows()
    groups = await open_coordinator(rows)
    await groups.lock_partitions(ALICE, W1, [0])

    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(rows, "mutate_many", hang)
    in_flight = asyncio.create_task(groups.commit(ALICE, commit("w1", 5)))
    for _ in range(3):
        await asyncio.sleep(0)
    queued = asyncio.create_task(groups.commit(ALICE, commit("w1", 6)))
    await asyncio.sleep(0)
    await groups.close()
    outcomes = await asyncio.gather(in_flight, queued, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown, StoreUnavailable]
