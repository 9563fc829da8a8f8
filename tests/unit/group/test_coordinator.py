import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.unit.catalog.support import MovableTime
from tests.unit.group.support import (
    ALICE,
    BOB,
    LEASE_S,
    ROOT,
    W1,
    W2,
    W3,
    FaultyRows,
    checkpoint,
    commit,
    open_coordinator,
    tenants,
)

from opentalos.group.coordinator import Coordinator, WorkerSeat
from opentalos.group.directory import GroupUser
from opentalos.group.row_format import GroupKey, GroupRow, group_row_key
from opentalos.model.errors import (
    ConsumerGroupNotExist,
    ConsumerGroupWorking,
    TooManyConsumers,
    UnexpectedOffset,
)
from opentalos.model.limits import GroupLimits
from opentalos.ports.row_store import ABSENT, RowMutation


@pytest.fixture
async def time() -> MovableTime:
    return MovableTime(asyncio.get_running_loop())


@pytest.fixture
async def rows() -> FaultyRows:
    return FaultyRows()


@pytest.fixture
async def groups(time: MovableTime, rows: FaultyRows) -> AsyncIterator[Coordinator]:
    coordinator = await open_coordinator(rows)
    yield coordinator
    await coordinator.close()


# --- workers and leases ------------------------------------------------------------------------


async def test_a_registered_worker_is_listed_at_once_with_no_partition(
    groups: Coordinator,
) -> None:
    await groups.lock_worker(ALICE, W1)
    assert await groups.holdings(ALICE, 8) == {"w1": []}


async def test_a_partition_goes_to_the_first_and_stays_with_it(groups: Coordinator) -> None:
    assert await groups.lock_partitions(ALICE, W1, [0, 1, 1]) == [0, 1]
    assert await groups.lock_partitions(ALICE, W2, [1, 2]) == [2]
    assert await groups.lock_partitions(ALICE, W1, [0]) == [0]
    assert await groups.holdings(ALICE, 8) == {"w1": [0, 1], "w2": [2]}
    assert groups.counters.grants == 3


async def test_workers_are_listed_by_id_descending(groups: Coordinator) -> None:
    for seat in (W1, W2):
        await groups.lock_worker(ALICE, seat)
    assert list(await groups.holdings(ALICE, 8)) == ["w2", "w1"]


async def test_two_workers_that_ask_at_once_do_not_both_get_a_partition(
    groups: Coordinator,
) -> None:
    first, second = await asyncio.gather(
        groups.lock_partitions(ALICE, W1, range(16)), groups.lock_partitions(ALICE, W2, range(16))
    )
    assert sorted([*first, *second]) == list(range(16))


async def test_unlocking_frees_only_what_the_worker_holds(groups: Coordinator) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    await groups.lock_partitions(ALICE, W2, [1])
    await groups.unlock_partitions(ALICE, "w1", [0, 1, 7])
    assert await groups.holdings(ALICE, 8) == {"w1": [], "w2": [1]}
    assert await groups.lock_partitions(ALICE, W2, [0]) == [0]


async def test_without_renewal_worker_and_partitions_are_free_after_the_lease(
    groups: Coordinator, time: MovableTime
) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    time.advance(LEASE_S - 0.5)
    assert await groups.lock_partitions(ALICE, W2, [0]) == []
    time.advance(0.6)
    assert await groups.holdings(ALICE, 8) == {"w2": []}
    assert await groups.lock_partitions(ALICE, W2, [0]) == [0]


async def test_renewal_keeps_what_it_lists_and_loses_what_it_does_not(
    groups: Coordinator, time: MovableTime
) -> None:
    await groups.lock_partitions(ALICE, W1, [0, 1])
    for _ in range(3):
        time.advance(LEASE_S / 2)
        assert await groups.renew(ALICE, W1, [0]) == []
    assert await groups.holdings(ALICE, 8) == {"w1": [0]}


async def test_a_renewal_reports_what_others_hold(groups: Coordinator, time: MovableTime) -> None:
    await groups.lock_partitions(ALICE, W1, [0, 1])
    time.advance(LEASE_S + 1)
    assert await groups.lock_partitions(ALICE, W2, [1]) == [1]
    assert await groups.renew(ALICE, W1, [0, 1]) == [1]
    assert await groups.holdings(ALICE, 8) == {"w1": [0], "w2": [1]}


async def test_a_worker_that_slept_past_its_lease_returns_by_renewing(
    groups: Coordinator, time: MovableTime
) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    time.advance(10 * LEASE_S)
    assert await groups.holdings(ALICE, 8) == {}
    assert await groups.renew(ALICE, W1, [0]) == []
    assert await groups.holdings(ALICE, 8) == {"w1": [0]}


async def test_a_renewal_takes_a_listed_partition_without_a_holder(groups: Coordinator) -> None:
    await groups.lock_worker(ALICE, W1)
    assert await groups.renew(ALICE, W1, [3]) == []
    assert await groups.holdings(ALICE, 8) == {"w1": [3]}


async def test_a_plain_heartbeat_writes_nothing(groups: Coordinator, rows: FaultyRows) -> None:
    await groups.lock_partitions(ALICE, W1, [0, 1])
    before = len(rows.calls)
    for _ in range(10):
        await groups.renew(ALICE, W1, [0, 1])
    assert len(rows.calls) == before


async def test_partitions_above_the_count_are_not_listed(groups: Coordinator) -> None:
    await groups.lock_partitions(ALICE, W1, [0, 7])
    assert await groups.holdings(ALICE, 4) == {"w1": [0]}


async def test_workers_and_groups_are_bounded(rows: FaultyRows) -> None:
    groups = await open_coordinator(rows, GroupLimits(workers_max=2, groups_max=1))
    await groups.lock_worker(ALICE, W1)
    assert await groups.can_register(ALICE, "w2")
    await groups.lock_worker(ALICE, W2)
    assert not await groups.can_register(ALICE, "w3")
    assert await groups.can_register(ALICE, "w1")
    with pytest.raises(TooManyConsumers, match="limit 2, measured 2"):
        await groups.lock_worker(ALICE, W3)
    await groups.lock_worker(ALICE, W1)
    other = GroupUser(GroupKey("u1", "other"), "alice")
    assert not await groups.can_register(other, "w1")
    with pytest.raises(TooManyConsumers, match="limit 1, measured 1"):
        await groups.lock_worker(other, W1)
    await groups.close()


# --- checkpoints -------------------------------------------------------------------------------


async def test_without_a_commit_the_checkpoint_is_minus_one(groups: Coordinator) -> None:
    assert await checkpoint(groups, ALICE, 0) == -1
    await groups.lock_partitions(ALICE, W1, [0])
    assert await checkpoint(groups, ALICE, 0) == -1


async def test_only_the_holder_commits(groups: Coordinator) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    assert await groups.commit(ALICE, commit("w1", 41))
    assert not await groups.commit(ALICE, commit("w2", 42))
    assert not await groups.commit(ALICE, commit("w1", 42, partition=1))
    assert await checkpoint(groups, ALICE, 0) == 41
    assert groups.counters.commits_refused == 2


async def test_a_worker_whose_lease_ran_out_cannot_commit(
    groups: Coordinator, time: MovableTime
) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    await groups.commit(ALICE, commit("w1", 10))
    time.advance(LEASE_S + 1)
    assert not await groups.commit(ALICE, commit("w1", 11))
    assert await groups.lock_partitions(ALICE, W2, [0]) == [0]
    assert not await groups.commit(ALICE, commit("w1", 12))
    assert await groups.commit(ALICE, commit("w2", 13))
    assert await checkpoint(groups, ALICE, 0) == 13


async def test_the_last_commit_before_the_unlock_counts(groups: Coordinator) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    assert await groups.commit(ALICE, commit("w1", 5))
    await groups.unlock_partitions(ALICE, "w1", [0])
    assert not await groups.commit(ALICE, commit("w1", 6))
    assert await checkpoint(groups, ALICE, 0) == 5


async def test_a_guarded_commit_compares_with_the_stored_checkpoint(groups: Coordinator) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    assert not await groups.commit(ALICE, commit("w1", 5, last=3))
    assert await groups.commit(ALICE, commit("w1", 5, last=-1))
    assert await groups.commit(ALICE, commit("w1", 9, last=5))
    assert not await groups.commit(ALICE, commit("w1", 12, last=5))
    assert await checkpoint(groups, ALICE, 0) == 9


async def test_a_commit_beyond_the_end_of_the_log_is_refused(groups: Coordinator) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    assert await groups.commit(ALICE, commit("w1", 99, next_offset=100))
    with pytest.raises(UnexpectedOffset, match="checkpoint 100 is beyond the log's end 99"):
        await groups.commit(ALICE, commit("w1", 100, next_offset=100))
    assert await checkpoint(groups, ALICE, 0) == 99


async def test_a_holder_may_go_back_and_it_is_counted(groups: Coordinator) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    await groups.commit(ALICE, commit("w1", 50))
    assert await groups.commit(ALICE, commit("w1", 20))
    assert await checkpoint(groups, ALICE, 0) == 20
    assert groups.counters.commits_backward == 1


async def test_an_equal_commit_succeeds_without_a_write(
    groups: Coordinator, rows: FaultyRows
) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    await groups.commit(ALICE, commit("w1", 50))
    before = len(rows.calls)
    assert await groups.commit(ALICE, commit("w1", 50))
    assert len(rows.calls) == before


async def test_a_reset_revokes_the_lease_first(groups: Coordinator) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    await groups.commit(ALICE, commit("w1", 50))
    assert await groups.reset(ROOT, 0, 7) == "w1"
    assert await checkpoint(groups, ALICE, 0) == 7
    assert not await groups.commit(ALICE, commit("w1", 51))
    assert await groups.holdings(ALICE, 8) == {"w1": []}
    assert await groups.lock_partitions(ALICE, W2, [0]) == [0]
    assert await groups.commit(ALICE, commit("w2", 8))
    assert groups.counters.resets == 1


async def test_progress_shows_who_holds_what_from_where(groups: Coordinator) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    await groups.commit(ALICE, commit("w1", 5))
    await groups.lock_partitions(ALICE, W2, [1])
    await groups.unlock_partitions(ALICE, "w2", [1])
    progress = await groups.progress.of_group(ALICE)
    assert tuple(progress[0]) == ("w1", "10.0.0.1", 5)
    assert tuple(progress[1]) == ("", "", -1)
    assert await groups.progress.of_group(GroupUser(GroupKey("u1", "none"), "alice")) == {}


def old_row(key: GroupKey, tenant: str) -> RowMutation:
    """A group's row as older servers wrote it, whichever tenant used the name first."""
    return RowMutation(group_row_key(key), ABSENT, b"old", GroupRow(tenant, 1).cells())


# --- groups ------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", [ALICE, BOB])
async def test_two_tenants_use_one_name_without_meeting(
    groups: Coordinator, time: MovableTime, first: GroupUser
) -> None:
    second = BOB if first is ALICE else ALICE
    assert await groups.lock_partitions(first, W1, [0, 1]) == [0, 1]
    assert await groups.lock_partitions(second, W1, [0]) == [0]
    await groups.commit(first, commit("w1", 5))
    await groups.commit(second, commit("w1", 2))
    assert [await checkpoint(groups, user, 0) for user in (first, second)] == [5, 2]
    await groups.reset(second, 0, -1)
    assert await groups.holdings(first, 8) == {"w1": [0, 1]}
    assert await groups.holdings(second, 8) == {"w1": []}
    time.advance(LEASE_S + 1)
    await groups.directory.delete_group(second)
    assert await checkpoint(groups, first, 0) == 5
    assert list(await tenants(groups, "u1")) == ["g" if first is ALICE else "bob/g"]


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_name_that_another_tenant_had_first_at_an_older_server_is_still_its_own(
    groups: Coordinator, rows: FaultyRows, time: MovableTime, restarted: bool
) -> None:
    await rows.mutate_many("groups", [old_row(GroupKey("u1", "g"), "bob")])
    assert await checkpoint(groups, ALICE, 0) == -1
    await groups.lock_partitions(BOB, W1, [0])
    await groups.lock_partitions(ALICE, W2, [0])
    await groups.commit(BOB, commit("w1", 5))
    await groups.commit(ALICE, commit("w2", 7))
    assert await tenants(groups, "u1") == {"alice/g": "alice", "g": "bob"}
    if restarted:
        groups = await open_coordinator(rows, first_token=100)
    assert [await checkpoint(groups, user, 0) for user in (ALICE, BOB)] == [7, 5]
    time.advance(LEASE_S + 1)
    await groups.directory.delete_group(BOB)
    assert await groups.lock_partitions(BOB, W1, [0]) == [0]
    assert [await checkpoint(groups, user, 0) for user in (ALICE, BOB)] == [7, -1]
    assert await tenants(groups, "u1") == {"alice/g": "alice", "bob/g": "bob"}


async def test_each_tenant_has_a_share_of_a_topics_groups(rows: FaultyRows) -> None:
    groups = await open_coordinator(rows, GroupLimits(groups_max=3, groups_of_tenant_max=2))

    async def fill(tenant: str, count: int) -> None:
        for number in range(count):
            user = GroupUser(GroupKey("u1", f"g{number}"), tenant, "alice")
            assert await groups.can_register(user, "w1")
            await groups.lock_worker(user, W1)

    async def is_full(tenant: str, match: str) -> None:
        user = GroupUser(GroupKey("u1", "more"), tenant, "alice")
        assert not await groups.can_register(user, "w1")
        with pytest.raises(TooManyConsumers, match=match):
            await groups.lock_worker(user, W1)

    await fill("bob", 2)
    await is_full("bob", "tenant bob on the topic: limit 2, measured 2")
    await fill("carol", 1)
    await is_full("carol", "all tenants but the topic's owner: limit 3, measured 3")
    await fill("alice", 3)
    await is_full("alice", "of the topic's owner: limit 3, measured 3")
    await groups.close()


async def test_reading_does_not_make_a_group(groups: Coordinator) -> None:
    assert await checkpoint(groups, BOB, 0) == -1
    assert await groups.holdings(BOB, 8) == {}
    assert not await groups.commit(BOB, commit("w1", 1))
    await groups.unlock_partitions(BOB, "w1", [0])
    assert await tenants(groups, "u1") == {}
    with pytest.raises(ConsumerGroupNotExist):
        await groups.reset(BOB, 0, 1)


async def test_two_tenants_that_start_at_once_do_not_share_a_group(groups: Coordinator) -> None:
    await asyncio.gather(groups.lock_worker(ALICE, W1), groups.lock_worker(BOB, W2))
    assert await tenants(groups, "u1") == {"bob/g": "bob", "g": "alice"}
    assert await groups.holdings(ALICE, 8) == {"w1": []}


async def test_a_group_is_deleted_only_without_workers(
    groups: Coordinator, time: MovableTime
) -> None:
    await groups.lock_partitions(ALICE, W1, [0])
    await groups.commit(ALICE, commit("w1", 5))
    with pytest.raises(ConsumerGroupWorking):
        await groups.directory.delete_group(ALICE)
    time.advance(LEASE_S + 1)
    await groups.directory.delete_group(ALICE)
    with pytest.raises(ConsumerGroupNotExist):
        await groups.directory.delete_group(ALICE)
    assert await checkpoint(groups, ALICE, 0) == -1
    await groups.lock_partitions(ALICE, W2, [0])
    assert await checkpoint(groups, ALICE, 0) == -1


async def test_a_topic_that_is_gone_leaves_no_row(groups: Coordinator, rows: FaultyRows) -> None:
    for name in ("a", "b"):
        user = GroupUser(GroupKey("u1", name), "alice")
        await groups.lock_partitions(user, W1, range(5))
    keep = GroupUser(GroupKey("u2", "a"), "alice")
    await groups.lock_partitions(keep, W1, [0])
    await groups.directory.delete_topic("u1")
    await groups.directory.delete_topic("u1")
    left = await rows.scan("groups", b"", b"", limit=100)
    assert {row.key.split(b"\0")[0] for row in left} == {b"u2"}
    assert await tenants(groups, "u1") == {}


async def test_a_partition_is_drained_when_every_group_read_it_to_the_end(
    groups: Coordinator,
) -> None:
    assert await groups.rows.drained("u1", 0, 10) is None
    other = GroupUser(GroupKey("u1", "other"), "bob")
    await groups.lock_partitions(ALICE, W1, [0])
    await groups.lock_partitions(other, WorkerSeat("x", ""), [0])
    assert await groups.rows.drained("u1", 0, 10) is False
    await groups.commit(ALICE, commit("w1", 9))
    assert await groups.rows.drained("u1", 0, 10) is False
    await groups.commit(other, commit("x", 9))
    assert await groups.rows.drained("u1", 0, 10) is True


async def test_checkpoints_of_a_tenant_are_found_over_all_topics(groups: Coordinator) -> None:
    for uuid, name, tenant in (
        ("u1", "app-a", "CLx"),
        ("u2", "app-b", "CLx"),
        ("u2", "other", "CLx"),
        ("u3", "app-c", "alice"),
    ):
        user = GroupUser(GroupKey(uuid, name), tenant)
        await groups.lock_partitions(user, W1, [0, 1])
        await groups.commit(user, commit("w1", 7, partition=1))
    found = await groups.rows.checkpoints("CLx", "app-")
    assert [(f.key.topic_uuid, f.key.name, f.partition, f.offset) for f in found] == [
        ("u1", "app-a", 1, 7),
        ("u2", "app-b", 1, 7),
    ]
