"""A join that takes long: its moves wait for each other, and the controller may change."""

import asyncio

from tests.unit.broker.cluster.controller_bed import ControllerBed, in_control


def test_a_join_goes_on_under_another_controller() -> None:
    """What the joining server has already neither returns nor moves again."""

    async def scenario(bed: ControllerBed) -> None:
        bed.topics.clear()
        bed.topics.update({f"topic-{number}": 40 for number in range(8)})
        await bed.steady("a", "b", "c")
        await bed.start("d")
        await bed.until(lambda: list(bed.owners().values()).count("d") >= 40, 20)
        begun = {key for key, owner in bed.owners().items() if owner == "d"}
        leader = bed.members[bed.leader()]
        assert "d" not in bed.ring().servers
        # Only the controller changes; its server is a member still.
        await leader.process.create_task(leader.controller.close())
        for _ in range(100):
            await asyncio.sleep(0.1)
            assert begun <= {key for key, owner in bed.owners().items() if owner == "d"}
        assert bed.leader() != leader.name
        assert "d" in bed.ring().servers
        assert not bed.moving()

    in_control(scenario)
