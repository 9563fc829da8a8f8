"""Publication: which planned moves are over."""

from tests.unit.broker.cluster.controller_bed import LIMITS, ControllerBed, in_control

from opentalos.broker.cluster.control.publication import SEALED_AFTER_S, SLACK_S
from opentalos.broker.cluster.records import AssignmentRecord
from opentalos.broker.cluster.state import assignment_path, put_record
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import manifest_path
from opentalos.model.message import PartitionKey

KEY = PartitionKey("topic", 0)


def test_a_move_that_follows_another_one_of_its_partition_has_all_its_time() -> None:
    """The first may end by the very plan that begins the second."""

    async def scenario(bed: ControllerBed) -> None:
        bed.topics.clear()
        (a,) = await bed.start("a")
        publication, waits_s = a.controller.publication, LIMITS.handover_s

        async def publish(source: str, target: str) -> None:
            record = AssignmentRecord(number=1, owners=(target,), moved_from={"0": source})
            await put_record(a.state.assignments, assignment_path(KEY.topic_uuid), record)

        await a.process.create_task(a.controller.close())
        await publish("a", "b")
        assert await publication.unfinished(0.0, waits_s) == {KEY: "a"}
        over_s = waits_s + SLACK_S + SEALED_AFTER_S
        unsealed = Manifest(epoch=1, owner="b", segments=(Segment(0, 1),))
        await bed.meta.create(manifest_path(KEY), unsealed.encode())
        assert not await publication.unfinished(over_s, waits_s)
        await publish("b", "c")
        assert await publication.unfinished(over_s, waits_s) == {KEY: "b"}
        assert not await publication.unfinished(2 * over_s, waits_s)

    in_control(scenario)
