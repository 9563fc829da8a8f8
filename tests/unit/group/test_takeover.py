"""Several servers over one table: who coordinates a group changes, and nothing is lost by it."""

import asyncio

import pytest
from tests.unit.catalog.support import MovableTime
from tests.unit.group.support import (
    ALICE,
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
from opentalos.group.coordinator import Coordinator
from opentalos.group.directory import GroupUser
from opentalos.group.group_rows import SCAN_ROWS_MAX
from opentalos.group.row_format import GroupKey, GroupRow, group_row_key
from opentalos.model.errors import (
    ConsumerGroupNotExist,
    ConsumerGroupWorking,
    PartitionNotServing,
    StoreUnavailable,
)
from opentalos.ports.row_store import Row


@pytest.fixture
async def time() -> MovableTime:
    return MovableTime(asyncio.get_running_loop())


@pytest.fixture
async def storage(time: MovableTime) -> MemoryStorage:
    return MemoryStorage()


async def _server(storage: MemoryStorage, name: str) -> tuple[Coordinator, FaultyRows]:
    rows = FaultyRows(storage)
    return await open_coordinator(rows, first_token=1_000 * ord(name[-1]), server=name), rows


async def test_a_takeover_loses_no_checkpoint_and_keeps_leases_for_a_full_lease(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (a, _), (b, _) = await _server(storage, "a"), await _server(storage, "b")
    await a.lock_partitions(ALICE, W1, [0, 1])
    await a.commit(ALICE, commit("w1", 5))
    time.advance(10 * LEASE_S)  # b has been up for long when it takes the group over
    await a.renew(ALICE, W1, [0, 1])
    a.ownership_changed(lambda group: False)
    assert await b.holdings(ALICE, 8) == {"w1": [0, 1]}
    assert await b.lock_partitions(ALICE, W2, [0]) == []
    assert await checkpoint(b, ALICE, 0) == 5
    assert await b.commit(ALICE, commit("w1", 6, last=5))
    time.advance(LEASE_S - 1)
    assert await b.renew(ALICE, W1, [0]) == []
    time.advance(2)
    assert await b.lock_partitions(ALICE, W2, [0, 1]) == [1]


async def test_a_restarted_server_does_not_hold_leases_longer_than_a_lease_from_its_start(
    storage: MemoryStorage, time: MovableTime
) -> None:
    a, _ = await _server(storage, "a")
    await a.lock_partitions(ALICE, W1, [0])
    restarted, _ = await _server(storage, "a")
    time.advance(LEASE_S + 1)
    assert await restarted.lock_partitions(ALICE, W2, [0]) == [0]


async def test_a_server_that_kept_a_group_continues_from_memory(
    storage: MemoryStorage, time: MovableTime
) -> None:
    a, rows = await _server(storage, "a")
    await a.lock_partitions(ALICE, W1, [0])
    rows.scans = 0
    a.ownership_changed(lambda group: group == "g")
    assert await a.renew(ALICE, W1, [0]) == []
    assert rows.scans == 0
    a.forget_all()
    assert await a.renew(ALICE, W1, [0]) == []
    assert rows.scans == 1


async def test_a_group_made_at_another_server_is_never_unknown(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (a, _), (b, _) = await _server(storage, "a"), await _server(storage, "b")
    assert await checkpoint(b, ALICE, 0) == -1  # unused so far
    await a.lock_partitions(ALICE, W1, [0])
    await a.commit(ALICE, commit("w1", 5))
    assert await checkpoint(b, ALICE, 0) == 5
    assert await tenants(b, "u1") == {"g": "alice"}
    await b.reset(ALICE, 0, 3)
    assert await checkpoint(a, ALICE, 0) == 3


async def test_a_checkpoint_is_read_from_the_row_even_at_a_server_that_remembers_another(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (a, _), (b, _) = await _server(storage, "a"), await _server(storage, "b")
    await a.lock_partitions(ALICE, W1, [0])
    await a.commit(ALICE, commit("w1", 5))
    assert await b.commit(ALICE, commit("w1", 9))
    assert await checkpoint(a, ALICE, 0) == 9
    assert (await a.progress.of_group(ALICE))[0].checkpoint == 9
    assert (await a.progress.of_rows(ALICE))[0] == ("w1", "10.0.0.1", 9)


async def test_a_zombie_coordinator_says_yes_to_nothing_that_the_rows_contradict(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (zombie, _), (b, _) = await _server(storage, "a"), await _server(storage, "b")
    await zombie.lock_partitions(ALICE, W1, [0])
    await zombie.commit(ALICE, commit("w1", 5))
    await b.unlock_partitions(ALICE, "w1", [0])
    assert await b.lock_partitions(ALICE, W2, [0]) == [0]
    assert await zombie.lock_partitions(ALICE, W1, [0]) == []  # its own, as it remembered
    await b.unlock_partitions(ALICE, "w2", [0])
    assert await b.lock_partitions(ALICE, W1, [0]) == [0]
    assert await b.commit(ALICE, commit("w1", 7))
    assert not await zombie.commit(ALICE, commit("w2", 5))  # its holder, as it remembered
    assert await checkpoint(zombie, ALICE, 0) == 7


async def test_a_zombie_coordinator_grants_no_lease_that_lives_elsewhere(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (zombie, _), (b, _) = await _server(storage, "a"), await _server(storage, "b")
    await zombie.lock_partitions(ALICE, W1, [0])
    await b.renew(ALICE, W1, [0])
    time.advance(LEASE_S - 1)
    await b.renew(ALICE, W1, [0])  # in b's memory only
    time.advance(2)
    with pytest.raises(PartitionNotServing):
        await zombie.lock_partitions(ALICE, W2, [0])
    assert await b.commit(ALICE, commit("w1", 5))
    assert await b.renew(ALICE, W1, [0]) == []


async def test_an_equal_commit_at_a_zombie_is_checked_with_the_row(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (zombie, _), (b, _) = await _server(storage, "a"), await _server(storage, "b")
    await zombie.lock_partitions(ALICE, W1, [0])
    await zombie.commit(ALICE, commit("w1", 5))
    await b.reset(ALICE, 0, 1)
    assert not await zombie.commit(ALICE, commit("w1", 5))
    assert await checkpoint(b, ALICE, 0) == 1


async def test_a_commit_is_not_refused_because_memory_is_behind_the_row(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (a, _), (b, _) = await _server(storage, "a"), await _server(storage, "b")
    await a.lock_partitions(ALICE, W1, [0])
    await b.unlock_partitions(ALICE, "w1", [0])
    await b.lock_partitions(ALICE, W2, [0])
    # The group is back at a, which never noticed that it was away.
    assert await a.commit(ALICE, commit("w2", 5))
    assert await a.renew(ALICE, W2, [0]) == []


async def test_a_renewal_is_not_refused_because_memory_is_behind_the_row(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (a, _), (b, _) = await _server(storage, "a"), await _server(storage, "b")
    await a.lock_partitions(ALICE, W1, [0])
    await b.unlock_partitions(ALICE, "w1", [0])
    await b.lock_partitions(ALICE, W2, [0])
    assert await a.renew(ALICE, W2, [0]) == []
    assert await a.renew(ALICE, W1, [0]) == [0]


# --- moving in the middle of a call --------------------------------------------------------------


async def test_a_load_that_ends_after_the_group_moved_is_not_kept(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (a, _), (b, rows) = await _server(storage, "a"), await _server(storage, "b")
    await a.lock_partitions(ALICE, W1, [0])
    call = asyncio.create_task(b.lock_partitions(ALICE, W2, [1]))
    await asyncio.sleep(0)
    b.forget_all()
    with pytest.raises(PartitionNotServing):
        await call
    before = rows.scans
    assert await b.holdings(ALICE, 8) == {"w1": [0]}
    assert rows.scans == before + 1


async def test_a_write_that_waits_while_the_group_moves_is_not_done(
    storage: MemoryStorage, time: MovableTime
) -> None:
    a, rows = await _server(storage, "a")
    await a.lock_partitions(ALICE, W1, [0])
    rows.meanwhile = a.forget_all
    first = asyncio.create_task(a.commit(ALICE, commit("w1", 5)))
    second = asyncio.create_task(a.commit(ALICE, commit("w1", 6)))
    assert await first  # the row has it, so it is a fact
    with pytest.raises(PartitionNotServing):
        await second
    assert await checkpoint(a, ALICE, 0) == 5


# --- deleting ------------------------------------------------------------------------------------


async def test_a_former_coordinator_cannot_delete_a_group_that_works_elsewhere(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (a, _), (b, _) = await _server(storage, "a"), await _server(storage, "b")
    await a.lock_partitions(ALICE, W1, [0])
    await a.commit(ALICE, commit("w1", 5))
    await b.renew(ALICE, W1, [0])
    time.advance(LEASE_S + 1)  # a has heard nothing from w1 for so long
    await b.renew(ALICE, W1, [0])
    with pytest.raises((PartitionNotServing, ConsumerGroupWorking)):
        await a.directory.delete_group(ALICE)
    assert await checkpoint(b, ALICE, 0) == 5
    assert await b.commit(ALICE, commit("w1", 6))


async def test_a_worker_that_joins_while_the_group_is_being_deleted_keeps_it(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (a, rows), (b, _) = await _server(storage, "a"), await _server(storage, "b")
    await a.lock_partitions(ALICE, W1, [0])
    await a.commit(ALICE, commit("w1", 5))
    time.advance(LEASE_S + 1)
    joined: list[asyncio.Task[None]] = []
    original = rows.mutate_many

    async def join_first(table: str, mutations: object) -> object:
        if not joined:
            joined.append(asyncio.create_task(b.lock_worker(ALICE, W2)))
            await joined[0]  # b takes the group over before a's write arrives
        return await original(table, mutations)  # type: ignore[arg-type]

    rows.mutate_many = join_first  # type: ignore[method-assign,assignment]
    with pytest.raises(PartitionNotServing):
        await a.directory.delete_group(ALICE)
    assert await checkpoint(b, ALICE, 0) == 5
    assert await tenants(b, "u1") == {"g": "alice"}


async def test_a_deleted_group_is_gone_at_every_server(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (a, _), (b, _) = await _server(storage, "a"), await _server(storage, "b")
    await a.lock_partitions(ALICE, W1, [0])
    await a.commit(ALICE, commit("w1", 5))
    await b.holdings(ALICE, 8)  # in b's memory, from before the deletion
    time.advance(LEASE_S + 1)
    await a.directory.delete_group(ALICE)
    assert await checkpoint(b, ALICE, 0) == -1
    with pytest.raises(ConsumerGroupNotExist):
        await b.reset(ALICE, 0, 1)
    assert await b.lock_partitions(ALICE, W2, [0]) == [0]
    assert await checkpoint(b, ALICE, 0) == -1
    assert not await a.commit(ALICE, commit("w1", 6))


async def test_rows_left_by_a_deletion_never_come_back_to_life(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (a, rows), (b, _) = await _server(storage, "a"), await _server(storage, "b")
    await a.lock_partitions(ALICE, W1, range(3))
    await a.commit(ALICE, commit("w1", 5))
    time.advance(LEASE_S + 1)
    original, calls = rows.mutate_many, 0

    async def die_after_the_mark(table: str, mutations: object) -> object:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise StoreUnavailable("down")
        return await original(table, mutations)  # type: ignore[arg-type]

    rows.mutate_many = die_after_the_mark  # type: ignore[method-assign,assignment]
    await a.directory.delete_group(ALICE)
    assert len(await rows.scan("groups", b"", b"", limit=10)) == 4
    assert await tenants(b, "u1") == {}
    assert await b.rows.checkpoints("alice", "") == []
    assert await checkpoint(b, ALICE, 0) == -1
    assert await b.lock_partitions(ALICE, W2, [1]) == [1]
    assert await checkpoint(b, ALICE, 0) == -1
    assert len(await rows.scan("groups", b"", b"", limit=10)) == 2


async def test_a_deletion_does_not_touch_a_group_recreated_meanwhile(
    storage: MemoryStorage, time: MovableTime
) -> None:
    (a, rows), (b, _) = await _server(storage, "a"), await _server(storage, "b")
    await a.lock_partitions(ALICE, W1, [0])
    time.advance(LEASE_S + 1)
    original, calls = rows.mutate_many, 0

    async def recreate_after_the_mark(table: str, mutations: object) -> object:
        nonlocal calls
        calls += 1
        if calls == 2:
            assert await b.lock_partitions(ALICE, W2, [0]) == [0]
        return await original(table, mutations)  # type: ignore[arg-type]

    rows.mutate_many = recreate_after_the_mark  # type: ignore[method-assign,assignment]
    await a.directory.delete_group(ALICE)
    assert await b.commit(ALICE, commit("w2", 8))
    assert await tenants(a, "u1") == {"g": "alice"}
    assert await checkpoint(a, ALICE, 0) == 8


# --- all groups of a topic -----------------------------------------------------------------------


async def test_groups_of_a_topic_are_listed_over_pages_of_rows(
    storage: MemoryStorage, time: MovableTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SCAN_ROWS_MAX > 4
    monkeypatch.setattr("opentalos.group.group_rows.SCAN_ROWS_MAX", 4)
    a, _ = await _server(storage, "a")
    names = ["a", "a2", "b", "b-1"]
    for name in names:
        await a.lock_partitions(GroupUser(GroupKey("u1", name), "alice"), W1, range(6))
    assert list(await tenants(a, "u1")) == names
    assert len(await a.progress.of_rows(GroupUser(GroupKey("u1", "a2"), "alice"))) == 6
    await a.directory.delete_topic("u1")
    assert await tenants(a, "u1") == {}


def test_a_row_without_a_coordinator_reads_and_deletion_is_visible() -> None:
    row = GroupRow("alice", 1, "s2", deleting=True)
    assert GroupRow.decode(row.cells()) == row
    assert Row(group_row_key(GroupKey("u", "g")), 1, row.cells()).key == b"u\0g\0g"


async def test_a_coordinator_in_doubt_answers_only_for_groups_that_nobody_claimed() -> None:
    """Its server is without coordination: renewals are not answered from memory alone."""
    storage = MemoryStorage()
    sure = [True]
    doubtful = await open_coordinator(FaultyRows(storage), server="s1", certain=lambda: sure[0])
    assert await doubtful.lock_partitions(ALICE, W1, [0]) == [0]
    sure[0] = False
    assert await doubtful.renew(ALICE, W1, [0]) == []
    assert await doubtful.commit(ALICE, commit("w1", 5))
    successor = await open_coordinator(FaultyRows(storage), first_token=100, server="s2")
    await successor.lock_worker(ALICE, W2)
    for _ in range(2):  # once from memory, once from the rows
        with pytest.raises(PartitionNotServing):
            await doubtful.renew(ALICE, W1, [0])
    with pytest.raises(PartitionNotServing):
        await doubtful.commit(ALICE, commit("w1", 6))
    assert await checkpoint(successor, ALICE, 0) == 5
    sure[0] = True
    assert await doubtful.renew(ALICE, W1, [0]) == []  # it may claim the group again
    await doubtful.close()
    await successor.close()
