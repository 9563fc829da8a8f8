"""A group that expires while somebody begins to use it again: the rows decide."""

import asyncio

import pytest
from tests.unit.group.support import ALICE, W1, FaultyRows, checkpoint, open_coordinator

from opentalos.adapters.memory import MemoryStorage
from opentalos.group.coordinator import Coordinator
from opentalos.group.kafka.lease_writes import CommitResult
from opentalos.group.kafka.leases import NewPosition
from opentalos.group.row_format import GroupRow
from opentalos.group.writes import USE_MS
from opentalos.model.errors import Unavailable

LATER_MS = 10 * USE_MS


async def commit(groups: Coordinator, next_offset: int) -> CommitResult:
    position = NewPosition(partition=0, next_offset=next_offset, log_end=100, epoch=1)
    return await groups.kafka.commit_alone(ALICE, position)


async def used_ms(groups: Coordinator) -> int:
    row: GroupRow = (await groups.rows.groups("u1"))["g"]
    assert row.used_ms is not None
    return row.used_ms


async def test_uses_write_the_row_once_in_a_while() -> None:
    groups = await open_coordinator(FaultyRows())
    now = [1_000_000]
    groups.directory.time_ms = lambda: now[0]
    seen = []
    for _ in range(3):
        assert await commit(groups, 5) is CommitResult.STORED
        seen.append(await used_ms(groups))
        now[0] += USE_MS // 2
    assert seen == [1_000_000, 1_000_000, 1_000_000 + USE_MS]
    await groups.close()


async def test_a_group_that_was_used_meanwhile_is_kept() -> None:
    groups = await open_coordinator(FaultyRows())
    groups.directory.time_ms = lambda: 1
    await commit(groups, 5)
    groups.directory.time_ms = lambda: LATER_MS
    await commit(groups, 6)
    assert not await groups.directory.delete_group(ALICE, used_ms=1)
    assert await checkpoint(groups, ALICE, 0) == 5
    assert await groups.directory.delete_group(ALICE, used_ms=LATER_MS)
    assert await checkpoint(groups, ALICE, 0) == -1
    await groups.close()


async def test_a_commit_that_comes_during_the_deletion_is_not_lost() -> None:
    rows = FaultyRows()
    groups = await open_coordinator(rows)
    groups.directory.time_ms = lambda: 1
    await commit(groups, 5)
    groups.directory.time_ms = lambda: LATER_MS
    began: list[asyncio.Task[CommitResult]] = []
    rows.meanwhile = lambda: began.append(asyncio.create_task(commit(groups, 9)))
    assert await groups.directory.delete_group(ALICE, used_ms=1)
    with pytest.raises(Unavailable):  # the client repeats it
        await began[0]
    assert await commit(groups, 9) is CommitResult.STORED
    assert await checkpoint(groups, ALICE, 0) == 8
    await groups.close()


async def test_a_former_coordinator_lets_nothing_expire() -> None:
    storage = MemoryStorage()
    former = await open_coordinator(FaultyRows(storage))
    former.directory.time_ms = lambda: 1
    await commit(former, 5)
    present = await open_coordinator(FaultyRows(storage), first_token=1_000, server="s2")
    present.directory.time_ms = lambda: LATER_MS
    assert await commit(present, 7) is CommitResult.STORED
    assert not await former.directory.delete_group(ALICE, used_ms=1)
    assert await checkpoint(present, ALICE, 0) == 6
    for groups in (former, present):
        await groups.close()


async def test_a_group_that_another_server_had_counts_as_used_when_it_is_taken_over() -> None:
    """One of an earlier version notes no uses."""
    storage = MemoryStorage()
    former = await open_coordinator(FaultyRows(storage))
    former.directory.time_ms = lambda: 1
    await commit(former, 5)
    await former.close()
    present = await open_coordinator(FaultyRows(storage), first_token=1_000, server="s2")
    present.directory.time_ms = lambda: LATER_MS
    assert not await present.directory.delete_group(ALICE, used_ms=1)
    assert await used_ms(present) == LATER_MS
    await present.close()


async def test_a_worker_or_a_reset_keeps_the_group() -> None:
    groups = await open_coordinator(FaultyRows())
    groups.directory.time_ms = lambda: 1
    await commit(groups, 5)
    groups.directory.time_ms = lambda: LATER_MS
    await groups.reset(ALICE, 0, 3)
    assert await used_ms(groups) == LATER_MS
    await groups.lock_worker(ALICE, W1)
    assert (await groups.rows.groups("u1"))["g"].used_ms is None
    assert not await groups.directory.delete_group(ALICE, used_ms=LATER_MS)
    await groups.close()
