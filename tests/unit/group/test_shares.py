"""The counts of a topic's groups, which all servers share."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.unit.catalog.support import MovableTime
from tests.unit.group.support import W1, FaultyRows, open_coordinator

from opentalos.group.coordinator import Coordinator
from opentalos.group.directory import GroupUser
from opentalos.group.kafka.leases import NewPosition
from opentalos.group.row_format import TABLE, GroupKey, GroupRow, group_row_key
from opentalos.group.shares import COUNTS_TABLE, RECOUNT_S, GroupCounts
from opentalos.model.errors import CorruptLog, NewerFormat, TalosError, TooManyConsumers
from opentalos.model.limits import GroupLimits
from opentalos.ports.row_store import ABSENT, FamilyName, Row, RowMutation

TWO = GroupLimits(groups_max=2)


class CountedRows(FaultyRows):
    """Counts the reads of every table."""

    def __init__(self) -> None:
        super().__init__()
        self.gets = 0

    async def get(
        self, table: str, keys: Sequence[bytes], *, family: FamilyName = FamilyName.DATA
    ) -> Sequence[Row | None]:
        self.gets += 1
        return await super().get(table, keys, family=family)


@pytest.fixture
async def time() -> MovableTime:
    return MovableTime(asyncio.get_running_loop())


@pytest.fixture
async def rows(time: MovableTime) -> CountedRows:
    return CountedRows()


@pytest.fixture
async def groups(rows: CountedRows) -> AsyncIterator[Coordinator]:
    coordinator = await open_coordinator(rows, TWO)
    yield coordinator
    await coordinator.close()


def user(name: str, tenant: str = "alice", topic: str = "u1") -> GroupUser:
    return GroupUser(GroupKey(topic, name), tenant, "alice")


async def counts(rows: CountedRows, topic: str = "u1") -> dict[str, int]:
    row = (await rows.get(COUNTS_TABLE, [topic.encode()]))[0]
    return dict(GroupCounts.decode(row.cells).of_tenant) if row else {}


async def make_uncounted(rows: CountedRows, name: str) -> None:
    """As a server of an earlier version makes a group."""
    cells = GroupRow("alice", 0, "old").cells()
    key = group_row_key(GroupKey("u1", name))
    await rows.mutate(TABLE, RowMutation(key, ABSENT, name.encode(), data=cells))


async def test_the_first_commit_of_a_group_costs_the_same_with_800_others(
    rows: CountedRows,
) -> None:
    groups = await open_coordinator(rows)

    async def reads_of_first_commit(name: str) -> int:
        before = rows.gets + rows.scans
        position = NewPosition(partition=0, next_offset=1, log_end=9, epoch=1)
        await groups.kafka.commit_alone(user(name), position)
        return rows.gets + rows.scans - before

    first, second = await reads_of_first_commit("a"), await reads_of_first_commit("b")
    for number in range(800):
        await groups.lock_worker(user(f"g{number}"), W1)
    assert await reads_of_first_commit("c") == second <= first
    assert await counts(rows) == {"alice": 803}
    await groups.close()


async def test_servers_share_the_count_and_a_restart_keeps_it(
    groups: Coordinator, rows: CountedRows
) -> None:
    other = await open_coordinator(rows, TWO, first_token=1_000, server="s2")
    await groups.lock_worker(user("a"), W1)
    await other.lock_worker(user("b"), W1)
    for coordinator in (groups, other):
        assert not await coordinator.can_register(user("c"), "w1")
        with pytest.raises(TooManyConsumers, match="limit 2, measured 2"):
            await coordinator.lock_worker(user("c"), W1)
    await other.close()
    again = await open_coordinator(rows, TWO, first_token=2_000, server="s2")
    with pytest.raises(TooManyConsumers):
        await again.lock_worker(user("c"), W1)
    await again.close()


async def test_groups_made_together_do_not_exceed_the_limit(
    groups: Coordinator, rows: CountedRows
) -> None:
    other = await open_coordinator(rows, TWO, first_token=1_000, server="s2")
    calls = [
        coordinator.lock_worker(user(f"{name}{number}"), W1)
        for name, coordinator in (("a", groups), ("b", other))
        for number in range(10)
    ]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(outcome is None for outcome in outcomes) == 2
    assert all(isinstance(outcome, TooManyConsumers) for outcome in outcomes if outcome)
    assert len(await groups.rows.groups("u1")) == 2
    await other.close()


async def test_calls_that_make_one_group_together_count_it_once(
    groups: Coordinator, rows: CountedRows
) -> None:
    await asyncio.gather(*(groups.lock_partitions(user("a"), W1, [n]) for n in range(20)))
    assert await counts(rows) == {"alice": 1}


async def test_a_deleted_group_leaves_room_at_once(
    groups: Coordinator, rows: CountedRows, time: MovableTime
) -> None:
    for name in ("a", "b"):
        await groups.lock_worker(user(name), W1)
    with pytest.raises(TooManyConsumers):
        await groups.lock_worker(user("c"), W1)
    time.advance(TWO.lease_s + 1)
    await groups.directory.delete_group(user("a"))
    await groups.lock_worker(user("c"), W1)
    assert await counts(rows) == {"alice": 2}


async def test_groups_of_earlier_versions_are_counted(
    groups: Coordinator, rows: CountedRows
) -> None:
    await make_uncounted(rows, "a")
    await make_uncounted(rows, "b")
    with pytest.raises(TooManyConsumers, match="limit 2, measured 2"):
        await groups.lock_worker(user("c"), W1)
    assert await counts(rows) == {"alice": 2}


async def test_a_count_that_a_crash_left_too_high_refuses_nobody(
    groups: Coordinator, rows: CountedRows
) -> None:
    await groups.lock_worker(user("a"), W1)
    shares = groups.directory._shares
    await shares.take("u1", "alice", "alice")  # a server ends before it makes the group
    await groups.lock_worker(user("b"), W1)
    assert await counts(rows) == {"alice": 2}
    with pytest.raises(TooManyConsumers):
        await groups.lock_worker(user("c"), W1)


async def test_a_tenant_without_room_has_the_groups_read_once_in_a_while(
    groups: Coordinator, rows: CountedRows, time: MovableTime
) -> None:
    for name in ("a", "b"):
        await groups.lock_worker(user(name), W1)
    scans = []
    for wait_s in (0.0, 0.0, RECOUNT_S + 1):
        time.advance(wait_s)
        before = rows.scans
        with pytest.raises(TooManyConsumers):
            await groups.lock_worker(user("c"), W1)
        scans.append(rows.scans - before)
    assert scans[0] == scans[2] == scans[1] + 1


async def test_a_group_that_is_not_made_is_not_counted(
    groups: Coordinator, rows: CountedRows
) -> None:
    await groups.lock_worker(user("a"), W1)
    rows.script = ["no fault", "unavailable"]  # the count, then the group
    with pytest.raises(TalosError):
        await groups.lock_worker(user("b"), W1)
    assert await counts(rows) == {"alice": 1}


async def test_counts_end_with_their_topic(groups: Coordinator, rows: CountedRows) -> None:
    await groups.lock_worker(user("a"), W1)
    await groups.directory.delete_topic("u1")
    await groups.directory.delete_topic("u1")
    assert await counts(rows) == {}
    assert await groups.rows.groups("u1") == {}


def test_counts_of_another_format_are_refused() -> None:
    cells = dict(GroupCounts({"alice": 2}).cells())
    with pytest.raises(NewerFormat, match="group_counts"):
        GroupCounts.decode(cells | {b"v": b"2"})
    with pytest.raises(CorruptLog):
        GroupCounts.decode(cells | {b"counts": b"[]"})
