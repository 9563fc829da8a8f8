"""A store that is slow for one row, and callers that leave: all other groups go on."""

import asyncio
from collections.abc import Sequence

import pytest
from tests.unit.catalog.support import MovableTime
from tests.unit.group.support import (
    ALICE,
    LEASE_S,
    W1,
    FaultyRows,
    checkpoint,
    commit,
    open_coordinator,
    tenants,
)

from opentalos.group import row_writer
from opentalos.group.coordinator import Coordinator
from opentalos.group.directory import GroupUser
from opentalos.group.kafka.lease_writes import CommitResult
from opentalos.group.kafka.leases import NewPosition
from opentalos.group.row_format import GroupKey
from opentalos.group.writes import USE_MS
from opentalos.model.errors import (
    ConsumerGroupNotExist,
    ExcessivePending,
    OutcomeUnknown,
    StoreUnavailable,
    TalosError,
)
from opentalos.ports.row_store import RowMutation

OTHER = GroupUser(GroupKey("u1", "other"), "alice")
NEW = GroupUser(GroupKey("u2", "g"), "alice")
TURNS = 20  # of the loop, more than any call of a memory store takes


class HangingRows(FaultyRows):
    """Calls with a row of group ``g`` wait while it hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()
        self.free.set()
        self.at_once = self.most = 0

    async def mutate_many(
        self, table: str, mutations: Sequence[RowMutation]
    ) -> Sequence[int | TalosError]:
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if any(b"\0g\0" in mutation.key for mutation in mutations):
                await self.free.wait()
            return await super().mutate_many(table, mutations)
        finally:
            self.at_once -= 1


@pytest.fixture
async def time() -> MovableTime:
    return MovableTime(asyncio.get_running_loop())


@pytest.fixture
async def rows() -> HangingRows:
    return HangingRows()


@pytest.fixture
async def groups(rows: HangingRows) -> Coordinator:
    """Worker 1 holds eight partitions in each of two groups."""
    made = await open_coordinator(rows)
    for user in (ALICE, OTHER):
        await made.lock_partitions(user, W1, range(8))
    return made


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def test_a_row_whose_write_hangs_holds_up_no_other_group(
    groups: Coordinator, rows: HangingRows, time: MovableTime
) -> None:
    rows.free.clear()
    held = asyncio.create_task(groups.commit(ALICE, commit("w1", 1)))
    await turns()
    others = asyncio.create_task(groups.commit(OTHER, commit("w1", 2, partition=3)))
    await turns()
    assert not others.done()  # while the store may just be slow, writes wait to share a call
    time.advance(row_writer.STALL_S)
    await turns()
    assert others.done()
    assert await others
    assert await groups.commit(OTHER, commit("w1", 3, partition=3))
    assert not held.done()
    rows.free.set()
    assert await held
    assert await checkpoint(groups, ALICE, 0) == 1
    await groups.close()


async def test_writes_of_a_hanging_row_keep_their_order(
    groups: Coordinator, rows: HangingRows, time: MovableTime
) -> None:
    rows.free.clear()
    commits = []
    for offset in range(5):
        commits.append(
            asyncio.create_task(groups.commit(ALICE, commit("w1", offset, last=offset - 1)))
        )
        await turns()
        time.advance(row_writer.STALL_S)
    assert rows.most == 1  # a row has one write in flight, however long it takes
    rows.free.set()
    assert all(await asyncio.gather(*commits))
    assert await checkpoint(groups, ALICE, 0) == 4
    await groups.close()


async def test_calls_to_a_hanging_store_are_bounded(
    groups: Coordinator, rows: HangingRows, time: MovableTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_writer, "CALLS_MAX", 3)
    rows.free.clear()
    held = []
    for partition in range(8):
        held.append(asyncio.create_task(groups.commit(ALICE, commit("w1", 1, partition=partition))))
        await turns()
        time.advance(row_writer.STALL_S)
        await turns()
    assert rows.most == 3
    rows.free.set()
    assert all(await asyncio.gather(*held))
    assert rows.most == 3
    await groups.close()


async def test_a_store_that_was_slow_gets_one_call_at_once_again(
    groups: Coordinator, rows: HangingRows, time: MovableTime
) -> None:
    rows.free.clear()
    held = asyncio.create_task(groups.commit(ALICE, commit("w1", 1)))
    await turns()
    time.advance(row_writer.STALL_S)
    assert await groups.commit(OTHER, commit("w1", 1))
    rows.free.set()
    assert await held
    rows.most, rows.calls = 0, []
    done = await asyncio.gather(
        *(groups.commit(OTHER, commit("w1", 5, partition=partition)) for partition in range(8))
    )
    assert all(done)
    assert (rows.most, sum(rows.calls)) == (1, 8)
    await groups.close()


async def idle(groups: Coordinator, time: MovableTime) -> None:
    """Nobody works in the groups any more."""
    time.advance(LEASE_S + 1)
    await turns()


async def test_a_deletion_whose_caller_leaves_is_completed(
    groups: Coordinator, rows: HangingRows, time: MovableTime
) -> None:
    await idle(groups, time)
    rows.free.clear()
    deletion = asyncio.create_task(groups.directory.delete_group(ALICE))
    await turns()
    deletion.cancel()
    await asyncio.gather(deletion, return_exceptions=True)
    rows.free.set()
    await turns()
    assert await tenants(groups, "u1") == {"other": "alice"}
    with pytest.raises(ConsumerGroupNotExist):
        await groups.directory.delete_group(ALICE)
    assert await groups.lock_partitions(ALICE, W1, [0]) == [0]  # it is "deleted" no more
    await groups.close()


async def test_a_deletion_that_fails_after_its_caller_left_keeps_the_group(
    groups: Coordinator, rows: HangingRows, time: MovableTime
) -> None:
    await idle(groups, time)
    rows.free.clear()
    deletion = asyncio.create_task(groups.directory.delete_group(ALICE))
    await turns()
    deletion.cancel()
    await asyncio.gather(deletion, return_exceptions=True)
    rows.unavailable = 1
    rows.free.set()
    await turns()
    assert await tenants(groups, "u1") == {"g": "alice", "other": "alice"}
    assert await groups.lock_partitions(ALICE, W1, [0]) == [0]
    await groups.close()


async def test_a_deletion_cut_off_by_the_end_of_the_server_leaves_nothing_in_memory(
    groups: Coordinator, rows: HangingRows, time: MovableTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_writer, "CLOSE_S", 0.0)
    await idle(groups, time)
    rows.free.clear()
    deletion = asyncio.create_task(groups.directory.delete_group(ALICE))
    await turns()
    await groups.close()
    with pytest.raises((asyncio.CancelledError, OutcomeUnknown)):
        await deletion
    assert groups.directory.figures.groups == 1


async def test_a_hanging_row_refuses_its_own_writes_and_no_others(
    groups: Coordinator,
    rows: HangingRows,
    time: MovableTime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_writer, "ROW_QUEUE_MAX", 5)
    monkeypatch.setattr(row_writer, "QUEUE_MAX", 20)
    rows.free.clear()
    held = [asyncio.create_task(groups.commit(ALICE, commit("w1", 1))) for _ in range(30)]
    await turns()
    refused = [task for task in held if task.done()]
    assert len(refused) == 30 - 5
    assert all(isinstance(task.exception(), ExcessivePending) for task in refused)
    other = asyncio.create_task(groups.commit(OTHER, commit("w1", 1)))
    time.advance(row_writer.STALL_S)
    await turns()
    await other
    rows.free.set()
    await asyncio.gather(*(task for task in held if task not in refused))


async def test_a_failure_that_nobody_waits_for_is_logged(
    groups: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails() -> None:
        raise ValueError("unexpected")

    task = groups.directory._started(fails(), "a deletion")
    await asyncio.wait([task])
    await turns()
    assert "a deletion failed" in caplog.text
    assert "unexpected" in caplog.text


POSITION = NewPosition(partition=0, next_offset=6, log_end=10, epoch=1)


async def used_by_kafka(groups: Coordinator) -> int:
    """A group of a Kafka client; returns when it was used."""
    assert await groups.kafka.commit_alone(NEW, POSITION) is CommitResult.STORED
    group = await groups.directory.find(NEW)
    assert group is not None
    assert group.row.value is not None
    assert group.row.value.used_ms is not None
    return group.row.value.used_ms


async def test_a_commit_that_meets_an_expiry_is_repeated(
    groups: Coordinator, rows: HangingRows
) -> None:
    used_ms = await used_by_kafka(groups)
    groups.directory.time_ms = lambda: used_ms + USE_MS
    rows.free.clear()
    expiry = asyncio.create_task(groups.directory.delete_group(NEW, used_ms=used_ms))
    await turns()
    late = asyncio.create_task(groups.kafka.commit_alone(NEW, POSITION))
    await turns()
    rows.free.set()
    assert await expiry
    with pytest.raises(StoreUnavailable, match="is being deleted"):
        await late
    assert await groups.kafka.commit_alone(NEW, POSITION) is CommitResult.STORED


async def test_an_expiry_that_fails_does_not_revive_what_a_user_deletes(
    groups: Coordinator, rows: HangingRows
) -> None:
    used_ms = await used_by_kafka(groups)
    rows.free.clear()
    expiry = asyncio.create_task(groups.directory.delete_group(NEW, used_ms=used_ms))
    await turns()
    deletion = asyncio.create_task(groups.directory.delete_group(NEW))
    await turns()
    rows.unavailable, rows.meanwhile = 1, rows.free.clear
    rows.free.set()
    with pytest.raises(StoreUnavailable, match="refused"):
        await expiry
    with pytest.raises(StoreUnavailable, match="is being deleted"):
        await groups.kafka.commit_alone(NEW, POSITION)  # else it would be lost
    rows.free.set()
    assert await deletion
    assert "g" not in await tenants(groups, NEW.key.topic_uuid)
