"""What a server says of a partition, by the records that it has seen."""

import contextlib

import pytest

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.broker.cluster.cluster_ownership import ClusterOwnership
from opentalos.broker.cluster.records import RING, AssignmentRecord, RingRecord, ServerRecord
from opentalos.broker.cluster.state import ClusterState, assignment_path, server_path
from opentalos.model.errors import NotOwner, PartitionNotServing

ME = ServerRecord(name="s1", incarnation="i", address="h1:1", started_ms=0)


async def test_a_partition_that_is_not_assigned_yet_is_looked_up_again_after_a_forward() -> None:
    """The forwarder may know a new topic, or a grown one, a moment before its owner does."""
    notes: list[str] = []
    state = ClusterState(MemoryMetaStore(MemoryStorage()), notes.append)
    ownership = ClusterOwnership(state, ME)
    ownership.serving = True
    await state.start()
    try:
        with pytest.raises(NotOwner) as caught:
            ownership.check("u", 0)
        assert (caught.value.address, caught.value.topic_uuid) == ("", "u")
        record = AssignmentRecord(number=1, owners=("", "s1"))
        await state.assignments.create(assignment_path("u"), record)
        ownership.record_changed(assignment_path("u"))
        ownership.check("u", 1)
        with pytest.raises(PartitionNotServing) as unowned:
            ownership.check("u", 0)
        assert not isinstance(unowned.value, NotOwner)
        with pytest.raises(NotOwner):
            ownership.check("u", 2)
    finally:
        await state.close()


async def test_shards_have_one_owner_by_their_name_on_the_ring() -> None:
    state = ClusterState(MemoryMetaStore(MemoryStorage()), lambda _: None)
    other = ServerRecord(name="s2", incarnation="i", address="h2:1", started_ms=0)
    mine, others = ClusterOwnership(state, ME), ClusterOwnership(state, other)
    await state.start()
    try:
        mine.serving = others.serving = True
        with pytest.raises(PartitionNotServing):
            mine.check_shard("t", 0)  # there is no ring yet
        for record in (ME, other):
            await state.servers.create(server_path(record.name), record)
        await state.control.create(RING, RingRecord(number=1, servers={"s1": 8, "s2": 8}))
        owned = []
        for number in range(64):
            with contextlib.suppress(NotOwner):
                mine.check_shard("t", number)
                owned.append(number)
        assert 0 < len(owned) < 64
        for number in range(64):
            refused, taken = (others, mine) if number in owned else (mine, others)
            taken.check_shard("t", number)
            with pytest.raises(NotOwner) as caught:
                refused.check_shard("t", number)
            assert caught.value.address == ("h1:1" if number in owned else "h2:1")
        assert (mine.others(), others.others()) == (["h2:1"], ["h1:1"])
        mine.serving = False
        with pytest.raises(PartitionNotServing) as lapsed:
            mine.check_shard("t", 0)
        assert not isinstance(lapsed.value, NotOwner)
    finally:
        await state.close()
