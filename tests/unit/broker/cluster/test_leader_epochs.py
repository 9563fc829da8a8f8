"""Leader epochs, by which clients of Kafka notice that their server is another one."""

import pytest

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.broker.cluster.cluster_ownership import ClusterLeaderEpochs
from opentalos.broker.cluster.ownership import NO_EPOCH, SingleServerEpochs
from opentalos.broker.cluster.records import (
    NUMBERED_BY_TIME_MAX,
    NUMBERED_SINCE_MS,
    AssignmentRecord,
    number_after,
)
from opentalos.broker.cluster.state import ClusterState, assignment_path, put_record
from opentalos.model.errors import LeaderEpochFenced, LeaderEpochUnknown
from opentalos.model.message import PartitionKey

KEY = PartitionKey("u", 0)
NOW_MS = NUMBERED_SINCE_MS + 5_000_000


def test_numbers_grow_with_each_change_and_begin_with_the_time() -> None:
    first = number_after(0, NOW_MS)
    assert first == 5_000
    assert number_after(first, NOW_MS) == first + 1
    assert number_after(first + 1, NOW_MS + 60_000) == first + 60
    assert number_after(first + 9, NOW_MS - 3_600_000) == first + 10  # a clock that was set back
    assert number_after(0, NOW_MS + 60_000) > first  # the record was lost, and is made again


def test_a_clock_that_is_wrong_leaves_room_for_changes() -> None:
    assert number_after(0, 0) == 1
    last = number_after(0, 1 << 60)
    assert last == NUMBERED_BY_TIME_MAX
    assert last < number_after(last, 1 << 60) < 1 << 31


def test_a_single_server_has_a_newer_epoch_after_each_start_and_refuses_none() -> None:
    before, after = SingleServerEpochs(NOW_MS), SingleServerEpochs(NOW_MS + 2_000)
    assert before.of("u") < after.of("u")
    for epoch in (NO_EPOCH, 0, before.of("u"), after.of("u") + 9):
        after.check(KEY, epoch)


async def changed(
    state: ClusterState, epochs: ClusterLeaderEpochs, number: int, owner: str
) -> None:
    """Another record, by which the partition is, or is no longer, at the server ``s1``."""
    path, before = assignment_path("u"), state.assignment("u")
    await put_record(state.assignments, path, AssignmentRecord(number=number, owners=(owner,)))
    had, has = before is not None and before.owners == ("s1",), owner == "s1"
    came, left = [KEY] if has and not had else [], [KEY] if had and not has else []
    epochs.changed("u", came, left)


async def test_epochs_before_a_partition_came_are_over_and_later_ones_unknown() -> None:
    state = ClusterState(MemoryMetaStore(MemoryStorage()), lambda _: None)
    epochs = ClusterLeaderEpochs(state)
    await state.start()
    try:
        assert epochs.of("u") == NO_EPOCH
        await changed(state, epochs, 7, "s2")
        await changed(state, epochs, 10, "s1")  # those between were not seen here
        await changed(state, epochs, 12, "s1")  # of another partition, or the end of the move
        assert epochs.of("u") == 12
        for epoch in (NO_EPOCH, 8, 10, 12):
            epochs.check(KEY, epoch)
        with pytest.raises(LeaderEpochFenced):
            epochs.check(KEY, 7)
        with pytest.raises(LeaderEpochUnknown):
            epochs.check(KEY, 13)
        await changed(state, epochs, 13, "s2")
        await changed(state, epochs, 14, "s1")
        with pytest.raises(LeaderEpochFenced):
            epochs.check(KEY, 13)
        epochs.check(KEY, 14)
    finally:
        await state.close()


async def test_an_epoch_that_is_not_known_is_looked_up() -> None:
    storage = MemoryStorage()
    behind, ahead = (ClusterState(MemoryMetaStore(storage), lambda _: None) for _ in range(2))
    epochs = ClusterLeaderEpochs(behind)
    await behind.start()
    await ahead.start()
    try:
        record = AssignmentRecord(number=5, owners=("s1",))
        await put_record(ahead.assignments, assignment_path("u"), record)
        assert epochs.of("u") == NO_EPOCH
        await epochs.confirm("u", 5)
        epochs.check(KEY, 5)
    finally:
        await ahead.close()
        await behind.close()
