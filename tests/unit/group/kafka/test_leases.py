"""Members of Kafka groups in the rows: who may commit, and who has lost."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.group.support import (
    ALICE,
    LEASE_S,
    W1,
    FaultyRows,
    checkpoint,
    commit,
    open_coordinator,
)

from opentalos.adapters.memory import MemoryStorage
from opentalos.group.coordinator import Coordinator
from opentalos.group.kafka.lease_writes import CommitResult
from opentalos.group.kafka.leases import NewPosition, Seat, worker_of
from opentalos.group.state import RECOUNT_S, TEXTS_BYTES_MAX, take_text
from opentalos.model.errors import (
    PartitionNotServing,
    SizeExceeded,
    StoreUnavailable,
    TooManyConsumers,
    UnexpectedOffset,
)


def seat(member: str) -> Seat:
    return Seat(worker=worker_of(member), address="10.0.0.9", may_take=_is_member)


def _is_member(owner: str) -> bool:
    return owner.startswith("kafka:")


def position(next_offset: int, *, held: bool = True, metadata: bytes = b"") -> NewPosition:
    return NewPosition(
        partition=0,
        next_offset=next_offset,
        log_end=100,
        epoch=3,
        held=held,
        metadata=metadata,
    )


async def assign(groups: Coordinator, member: str) -> list[int]:
    return list(await groups.kafka.assign(ALICE, seat(member), [0], lambda: True))


async def two_servers() -> tuple[Coordinator, Coordinator]:
    """The former coordinator, which does not know that it is one, and the present one."""
    storage = MemoryStorage()
    former = await open_coordinator(FaultyRows(storage))
    assert await assign(former, "old") == [0]
    present = await open_coordinator(FaultyRows(storage), first_token=1_000, server="s2")
    return former, present


async def test_a_member_commits_what_it_was_given() -> None:
    groups = await open_coordinator(FaultyRows())
    assert await assign(groups, "m1") == [0]
    result = await groups.kafka.commit(ALICE, seat("m1"), position(10, metadata=b"note"))
    assert result is CommitResult.STORED
    found = (await groups.kafka.positions(ALICE))[0]
    assert (found.next_offset, found.metadata) == (10, b"note")
    assert await checkpoint(groups, ALICE, 0) == 9
    await groups.close()


async def test_the_last_member_decides_what_kind_of_group_it_was() -> None:
    groups = await open_coordinator(FaultyRows())
    kafka = groups.kafka
    for member, server_assigns in (("m1", True), ("m2", False), ("m3", True)):
        place = replace(seat(member), server_assigns=server_assigns)
        assert await kafka.assign(ALICE, place, [0], lambda: True) == [0]
        assert await kafka.commit(ALICE, place, position(10)) is CommitResult.STORED
        assert await kafka.server_assigned(ALICE) is server_assigns
        await kafka.release(ALICE, place.worker, [0])
        assert await kafka.server_assigned(ALICE) is server_assigns
    assert await kafka.commit_alone(ALICE, position(3)) is CommitResult.STORED
    assert await kafka.server_assigned(ALICE), "a reset is no member"
    assert await groups.lock_partitions(ALICE, W1, [0]) == [0]
    assert not await kafka.server_assigned(ALICE), "a worker is none either"
    await groups.close()


async def test_offset_zero_is_a_position() -> None:
    groups = await open_coordinator(FaultyRows())
    assert await groups.kafka.positions(ALICE) == {}
    await assign(groups, "m1")
    assert await groups.kafka.positions(ALICE) == {}
    assert await groups.kafka.commit(ALICE, seat("m1"), position(0)) is CommitResult.STORED
    assert (await groups.kafka.positions(ALICE))[0].next_offset == 0
    assert await checkpoint(groups, ALICE, 0) == -1
    await groups.close()


async def test_no_commit_passes_the_end_of_the_log() -> None:
    groups = await open_coordinator(FaultyRows())
    await assign(groups, "m1")
    assert await groups.kafka.commit(ALICE, seat("m1"), position(100)) is CommitResult.STORED
    with pytest.raises(UnexpectedOffset):
        await groups.kafka.commit(ALICE, seat("m1"), position(101))
    with pytest.raises(UnexpectedOffset):
        await groups.kafka.commit_alone(ALICE._replace(tenant="other"), position(101))
    await groups.close()


async def test_a_member_whose_partition_another_one_has_commits_nothing() -> None:
    groups = await open_coordinator(FaultyRows())
    await assign(groups, "m1")
    assert await assign(groups, "m2") == [0]
    commit_ = groups.kafka.commit
    assert await commit_(ALICE, seat("m1"), position(10)) is CommitResult.REVOKED
    outsider = Seat(worker=worker_of("m1"), address="", may_take=lambda owner: False)
    assert await commit_(ALICE, outsider, position(10, held=False)) is CommitResult.OTHERS
    assert await checkpoint(groups, ALICE, 0) == -1
    await groups.close()


async def test_a_free_partition_is_taken_by_the_commit() -> None:
    groups = await open_coordinator(FaultyRows())
    result = await groups.kafka.commit(ALICE, seat("m1"), position(5, held=False))
    assert result is CommitResult.STORED
    assert (await groups.progress.of_group(ALICE))[0].worker == "kafka:m1"
    await groups.close()


async def test_a_reset_revokes_what_a_member_holds() -> None:
    groups = await open_coordinator(FaultyRows())
    await assign(groups, "m1")
    assert await groups.reset(ALICE, 0, 50) == "kafka:m1"
    assert await groups.kafka.commit(ALICE, seat("m1"), position(7)) is CommitResult.REVOKED
    assert await checkpoint(groups, ALICE, 0) == 50
    assert await assign(groups, "m1") == [0]
    assert await groups.kafka.commit(ALICE, seat("m1"), position(7)) is CommitResult.STORED
    await groups.close()


async def test_a_grant_of_a_former_generation_changes_nothing() -> None:
    groups = await open_coordinator(FaultyRows())
    await assign(groups, "m2")
    assert await groups.kafka.assign(ALICE, seat("m1"), [0], lambda: False) == []
    assert (await groups.progress.of_group(ALICE))[0].worker == "kafka:m2"
    await groups.close()


async def test_the_zombie_of_a_former_coordinator_never_moves_a_checkpoint() -> None:
    former, present = await two_servers()
    assert await assign(present, "new") == [0]
    assert await present.kafka.commit(ALICE, seat("new"), position(20)) is CommitResult.STORED
    with pytest.raises(PartitionNotServing):
        await former.kafka.commit(ALICE, seat("old"), position(99, held=False))
    assert await checkpoint(present, ALICE, 0) == 19
    await former.close()
    await present.close()


async def test_a_former_coordinator_gives_nothing_away_once_a_partition_was_taken_over() -> None:
    former, present = await two_servers()
    assert await assign(present, "new") == [0]
    with pytest.raises(PartitionNotServing):
        await assign(former, "other")
    assert await present.kafka.commit(ALICE, seat("new"), position(20)) is CommitResult.STORED
    await former.close()
    await present.close()


async def test_the_present_coordinator_wins_after_the_former_wrote_once_more() -> None:
    former, present = await two_servers()
    assert await present.kafka.positions(ALICE) == {}
    assert await present.directory.use(ALICE) is not None  # it is the coordinator from now on
    assert await former.kafka.commit(ALICE, seat("old"), position(30)) is CommitResult.STORED
    assert await assign(present, "new") == [0]
    assert (await present.kafka.positions(ALICE))[0].next_offset == 30
    await former.close()
    await present.close()


async def test_what_a_member_released_belongs_to_a_worker() -> None:
    groups = await open_coordinator(FaultyRows())
    await assign(groups, "m1")
    with pytest.raises(TooManyConsumers):
        await groups.lock_partitions(ALICE, W1, [0])
    await groups.kafka.release(ALICE, worker_of("m1"), [0])
    assert await groups.lock_partitions(ALICE, W1, [0]) == [0]
    assert await groups.commit(ALICE, commit(W1.worker, 3))
    assert await assign(groups, "m2") == []
    assert await groups.kafka.commit(ALICE, seat("m2"), position(9, held=False)) is (
        CommitResult.OTHERS
    )
    assert list((await groups.kafka.workers(ALICE, 1)) or ()) == [W1.worker]
    await groups.close()


async def test_a_client_alone_commits_only_while_nobody_works() -> None:
    groups = await open_coordinator(FaultyRows())
    assert await groups.kafka.commit_alone(ALICE, position(8)) is CommitResult.STORED
    await assign(groups, "m1")
    assert await groups.kafka.commit_alone(ALICE, position(9)) is CommitResult.OTHERS
    assert await groups.kafka.clear(ALICE, 0) is CommitResult.OTHERS
    await groups.kafka.release(ALICE, worker_of("m1"), [0])
    assert await groups.kafka.clear(ALICE, 0) is CommitResult.STORED
    assert await groups.kafka.positions(ALICE) == {}
    await groups.close()


async def test_another_commit_removes_the_text_of_the_former() -> None:
    groups = await open_coordinator(FaultyRows())
    await groups.kafka.commit_alone(ALICE, position(8, metadata=b"state"))
    await groups.lock_partitions(ALICE, W1, [0])
    assert await groups.commit(ALICE, commit(W1.worker, 20))
    assert (await groups.kafka.positions(ALICE))[0][:2] == (21, b"")
    await groups.close()


async def test_texts_of_a_group_are_bounded_together_and_positions_pass_without_one() -> None:
    groups = await open_coordinator(FaultyRows())
    half = replace(position(8), metadata=bytes(TEXTS_BYTES_MAX // 2))
    for partition in (0, 1, 0):  # a text that replaces one as long takes nothing
        new = replace(half, partition=partition, next_offset=9)
        assert await groups.kafka.commit_alone(ALICE, new) is CommitResult.STORED
    await assign(groups, "m1")
    third = replace(half, partition=2, held=False)
    with pytest.raises(SizeExceeded, match="limit 1048576 bytes, measured 1048576"):
        await groups.kafka.commit(ALICE, seat("m1"), third)
    assert 2 not in await groups.kafka.positions(ALICE)
    without = replace(third, metadata=b"")
    assert await groups.kafka.commit(ALICE, seat("m1"), without) is CommitResult.STORED
    await groups.close()


async def test_texts_that_a_new_coordinator_finds_count_and_those_replaced_do_not() -> None:
    former, present = await two_servers()
    whole = replace(position(8), metadata=bytes(TEXTS_BYTES_MAX))
    assert await former.kafka.commit(ALICE, seat("old"), whole) is CommitResult.STORED
    assert await assign(present, "new") == [0]
    other = replace(position(8, held=False, metadata=b"x"), partition=1)
    with pytest.raises(SizeExceeded):
        await present.kafka.commit(ALICE, seat("new"), other)
    assert await present.kafka.commit(ALICE, seat("new"), position(9)) is CommitResult.STORED
    group = await present.directory.find(ALICE)
    assert group is not None
    later_s = asyncio.get_running_loop().time() + RECOUNT_S
    take_text(group, b"", b"x", later_s)  # what was replaced is left out when they are summed again
    with pytest.raises(SizeExceeded):
        take_text(group, b"", bytes(TEXTS_BYTES_MAX), later_s)
    await former.close()
    await present.close()


async def test_a_release_that_fails_ends_as_an_expired_lease() -> None:
    rows = FaultyRows()
    groups = await open_coordinator(rows)
    await assign(groups, "m1")
    rows.unavailable = 1
    with pytest.raises(StoreUnavailable):
        await groups.kafka.release(ALICE, worker_of("m1"), [0])
    group = await groups.directory.find(ALICE)
    assert group is not None
    part = group.partition(0)
    assert LEASE_S - 5 < part.expires_s < 1e6
    await groups.close()
