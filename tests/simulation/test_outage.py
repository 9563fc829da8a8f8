"""Coordination away under load: open partitions go on, and nothing moves when it is back."""

import asyncio
from collections import Counter
from itertools import pairwise

import pytest
from tests import tiers

from opentalos.model.limits import LogLimits, QuotaLimits
from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.clients.group_clients import Worker
from opentalos.testing.simulation.clients.message_clients import (
    Actor,
    IdempotentProducer,
    LiveTopic,
    Producer,
    Reader,
)
from opentalos.testing.simulation.clients.topics.admin import GROUPS, Admin
from opentalos.testing.simulation.clients.workload import Auditor
from opentalos.testing.simulation.cluster.nemesis import end_sessions
from opentalos.testing.simulation.cluster.network import ANY_PLACE, META, Way
from opentalos.testing.simulation.cluster.world import ClusterConfig, ClusterWorld
from opentalos.testing.simulation.history import History
from opentalos.testing.simulation.stores.faults import (
    ClusterFaults,
    FileFaults,
    MetaFaults,
    RowFaults,
)

WARM_S = 5.0  # every partition is open by then
OUTAGE_S = 30.0  # fifteen sessions
AFTER_S = 10.0
SILENCE_S = 1.0  # of one partition, at most
CALM = ClusterConfig(
    think_s=0.05,
    files=FileFaults(),
    meta=MetaFaults(),
    rows=RowFaults(),
    cluster=ClusterFaults(),
    log=LogLimits(space_reserve_bytes=0),  # nothing is due to roll or to be sealed
    quota=QuotaLimits(),
    metered=0.0,
    tabled=0.0,
)


class Outage:
    """Runs the clients through one outage; knows what was open before and after."""

    def __init__(self, world: ClusterWorld, *, expired: bool) -> None:
        self._world, self._expired = world, expired
        self.began_s = self.ended_s = 0.0
        self.openings: list[int] = []

    async def play(self, world: ClusterWorld) -> None:
        """The scenario."""
        loop = world.loop
        follower = asyncio.create_task(world.control.follow(), name="follow records")
        await world.start_all()
        topics: list[LiveTopic] = []
        admin = Admin(world, topics)
        topics.append(await admin.create("synced", partitions=3, flushed=False))
        topics.append(await admin.create("flushed", partitions=2, flushed=True))
        clients: list[Actor] = [Producer(world, f"plain{n}", topics) for n in range(4)]
        clients += [IdempotentProducer(world, f"exact{n}", topics, n + 1) for n in range(2)]
        clients += [Reader(world, f"reader{n}", topics) for n in range(2)]
        clients += [Worker(world, f"{group}-w", group, topics) for group in GROUPS]
        tasks = [asyncio.create_task(each.run(), name=each.name) for each in clients]
        await asyncio.sleep(WARM_S)
        self.openings.append(self._openings())
        ways = [Way(ANY_PLACE, META), Way(META, ANY_PLACE)]
        self.began_s = loop.time()
        world.network.cut(ways)
        await asyncio.sleep(OUTAGE_S)
        world.network.mend(ways)
        if self._expired:
            end_sessions(world)
        await asyncio.sleep(AFTER_S)
        self.ended_s = loop.time()
        self.openings.append(self._openings())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        auditor = Auditor(world, topics)
        await auditor.probe()
        await auditor.read_all()
        await world.stop_all()
        await auditor.verify()
        follower.cancel()

    def _openings(self) -> int:
        """Segments that were opened; attempts that did not come that far do not count."""
        epochs = Counter[str]()
        for server in self._world.running():
            for log in server.broker.context.log._partitions.values():
                epochs[f"{log.key}"] = max(epochs[f"{log.key}"], log.epoch)
        return epochs.total()

    def silences(self, history: History) -> dict[str, float]:
        """The longest time without an acknowledged put of each partition, by its name."""
        acks: dict[str, list[float]] = {}
        for each in history.operations:
            if each.action == "put" and each.ok:
                name = f"{each.args['topic']}/{each.args['partition']}"
                acks.setdefault(name, [self.began_s]).append(each.ended_s)
        longest = {}
        for name, times in acks.items():
            inside = sorted(t for t in times if self.began_s <= t <= self.ended_s)
            inside.append(self.ended_s)
            longest[name] = max(after - before for before, after in pairwise(inside))
        return longest


@pytest.mark.parametrize("expired", [False, True], ids=["sessions live on", "sessions end"])
def test_puts_go_on_while_coordination_is_away(expired: bool) -> None:
    for seed in range(tiers.size(1, 2)):
        world = ClusterWorld(seed, CALM)
        outage = Outage(world, expired=expired)
        history = world.play(outage.play)
        assert not check(history)
        silences = outage.silences(history)
        assert len(silences) == 5
        assert max(silences.values()) <= SILENCE_S, silences
        assert outage.openings[0] == outage.openings[1]  # nothing moved, nothing was re-opened
