"""What a server says of a partition, by the records that it has seen."""

import pytest

from opentalos.adapters.memory import MemoryMetaStore, MemoryStorage
from opentalos.broker.cluster.cluster_ownership import ClusterOwnership
from opentalos.broker.cluster.records import AssignmentRecord, ServerRecord
from opentalos.broker.cluster.state import ClusterState, assignment_path
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
        with pytest.raises(PartitionNotServing) as nobody:
            ownership.check("u", 0)
        assert not isinstance(nobody.value, NotOwner)
        with pytest.raises(NotOwner):
            ownership.check("u", 2)
    finally:
        await state.close()
