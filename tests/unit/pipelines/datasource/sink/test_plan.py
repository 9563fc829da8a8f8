"""What a write knows of its topic before its tasks start."""

from tests.unit.sdk.fake_group import FakeGroup
from tests.unit.sdk.fake_servers import run

from opentalos.pipelines.datasource.sink.plan import target_of


def test_a_damaged_partition_does_not_refuse_writes_to_the_others() -> None:
    async def scenario() -> None:
        group = FakeGroup(partitions=2)
        group.put(0, 3)
        group.put(1, 2)
        group.damaged[0] = False
        target = await target_of(group.client(), "demo", planned=True)
        assert target.floors == {0: 0, 1: 2}  # all of a damaged one is compared

    run(scenario())
