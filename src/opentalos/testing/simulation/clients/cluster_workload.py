"""The standard workload of a cluster: clients at every server, healing, probes, final reads."""

import asyncio
from collections import Counter
from collections.abc import Callable
from math import ceil

from opentalos.broker.broker import Broker
from opentalos.broker.cluster.records import LeavingKind
from opentalos.model.errors import TalosError
from opentalos.testing.simulation.clients.group_clients import Worker
from opentalos.testing.simulation.clients.message_clients import (
    OWNER,
    Actor,
    Client,
    IdempotentProducer,
    LiveTopic,
    Producer,
    Reader,
    Stranger,
)
from opentalos.testing.simulation.clients.records.scene import (
    assigned_members,
    create_records,
    followers,
    members,
    read_positions,
    record_clients,
)
from opentalos.testing.simulation.clients.storage_clients import EndReader
from opentalos.testing.simulation.clients.tables.workload import TableScene
from opentalos.testing.simulation.clients.topics.admin import GROUPS, Admin
from opentalos.testing.simulation.clients.workload import PATIENCE_S, SETTLE_S, Auditor
from opentalos.testing.simulation.cluster.nemesis import Nemesis
from opentalos.testing.simulation.cluster.server import ClusterServer
from opentalos.testing.simulation.cluster.world import ClusterWorld
from opentalos.testing.simulation.history import harmed_partitions
from opentalos.testing.simulation.world.server import ServerLost, SimulatedServer, UnansweredBug

BOUND = 1.25  # times its share of a topic that a server may have, rounded up
BALANCE_S = 15.0  # after the faults the cluster must be balanced within this time
POLL_S = 0.5


class Router(Client):
    """Refreshes the schedule info from time to time, for all clients of a topic."""

    def __init__(self, world: ClusterWorld, topics: list[LiveTopic], name: str = "router") -> None:
        super().__init__(world, name)
        self.topics = topics

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think(3)
            topic = self.rng.choice(self.topics)
            await self.learn(await self.server(), topic)

    async def learn(self, server: SimulatedServer, topic: LiveTopic) -> bool:
        """Keep the schedule info of one server."""

        async def schedule(broker: Broker) -> list[str]:
            return list(broker.messages.schedule_info(OWNER, topic.resource)[1])

        try:
            addresses = await server.call("schedule", schedule, timeout_s=self.world.config.call_s)
        except (TalosError, ServerLost, UnansweredBug):
            return False
        topic.addresses = dict(enumerate(addresses))
        return True


class Straggler(Client):
    """A producer that does not know that its topic was deleted."""

    def __init__(self, world: ClusterWorld, topics: list[LiveTopic]) -> None:
        super().__init__(world, "straggler")
        self.topics = topics

    async def run(self) -> None:
        """Until cancelled."""
        number = 0
        while True:
            await self.think()
            deleted = [topic for topic in self.topics if topic.deleted]
            if deleted:
                topic, number = deleted[-1], number + 1
                partition = self.rng.randrange(topic.partitions)
                server = await self.server(topic, partition)
                await self.put(server, topic, partition, [self.block([f"late.{number}"])])


class ClusterAuditor(Auditor):
    """Also checks that the cluster becomes balanced, and every topic spread over its servers."""

    def __init__(self, world: ClusterWorld, topics: list[LiveTopic]) -> None:
        super().__init__(world, topics)
        self._cluster = world
        self._router = Router(world, topics)

    async def check_balance(self) -> None:
        """Every partition has a living owner, and every server that is not draining has a share.

        No server has too many partitions of one topic.
        """
        await self._check_soon("never-rebalanced", self._faults)
        await self._check_soon("crowded-topic", self._crowded)

    async def _check_soon(self, anomaly: str, look: Callable[[], list[str]]) -> None:
        until_s = self._cluster.loop.time() + BALANCE_S
        while True:
            faults, late = look(), self._cluster.loop.time() > until_s
            if not faults or late:
                break
            await asyncio.sleep(POLL_S)
        for fault in faults:
            self._cluster.recorder.note(anomaly, text=fault)

    async def check_schedule(self) -> None:
        """The schedule info of every server sends clients to owners: no put is forwarded."""
        for topic in self._whole():
            for server in self._cluster.running():
                await self._check_addresses(server, topic)

    async def _check_addresses(self, server: ClusterServer, topic: LiveTopic) -> None:
        world = self._cluster
        until_s = world.loop.time() + PATIENCE_S
        while True:
            forwarded = await self._puts_forwarded(server, topic)
            if forwarded == 0:
                return
            if world.loop.time() > until_s:
                text = f"{server.name} sends clients of {topic.name} to the wrong server"
                world.recorder.note("stale-schedule", text=text)
                return
            await asyncio.sleep(POLL_S)

    async def _puts_forwarded(self, server: ClusterServer, topic: LiveTopic) -> int:
        world = self._cluster
        if not await self._router.learn(server, topic):
            return -1
        by_address = {each.seat.address: each for each in world.running()}
        before = world.forwarded
        for partition in range(topic.partitions):
            target = by_address.get(topic.addresses.get(partition, ""))
            if target is None:
                return -1
            if not await self.probe_once(target, topic, partition):
                return -1
        return world.forwarded - before

    def _whole(self) -> list[LiveTopic]:
        """Topics that no damage of the storage concerns: of others the record may be gone."""
        harmed = {name.topic for name in harmed_partitions(self._cluster.recorder.history)}
        return [topic for topic in self.topics if topic.uuid not in harmed]

    def _draining(self, host: str) -> bool:
        # The controller removes a drain whose server was away for long.
        leaving = self._cluster.control.leaving(host)
        return leaving is not None and leaving.kind == LeavingKind.DRAIN.value

    def _faults(self) -> list[str]:
        world = self._cluster
        living = [each.seat.host for each in world.running()]
        serving = [host for host in living if not self._draining(host)]
        ring, assignments = world.control.ring(), world.control.assignments()
        found = [f"{host} takes no part: {ring}" for host in serving if host not in ring]
        for topic in self._whole():
            record = assignments.get(topic.uuid)
            owners = record.owners if record is not None else ()
            for partition in range(topic.partitions):
                owner = owners[partition] if partition < len(owners) else ""
                if record is not None and str(partition) in record.lent:
                    lender = record.lent[str(partition)]
                    found.append(f"{topic.name}/{partition} is still lent by {lender}")
                if owner not in serving:
                    found.append(f"{topic.name}/{partition} is {owner!r}'s, {serving} serve")
        return found

    def _crowded(self) -> list[str]:
        """Computed without the code under test; all servers have the same weight."""
        assignments, servers = self._cluster.control.assignments(), self._cluster.control.ring()
        found = []
        for topic in self.topics:
            record = assignments.get(topic.uuid)
            counts = Counter(record.owners if record is not None else ())
            most = ceil(BOUND * counts.total() / max(len(servers), 1))
            found += [
                f"{host} has {count} of {counts.total()} partitions of {topic.name}, at most {most}"
                for host, count in counts.items()
                if count > most
            ]
        return found


async def cluster_workload(world: ClusterWorld) -> None:
    """Faults, then healing, probes, sometimes a restart of all servers, and the final reads."""
    rng = world.rng("workload")
    follower = asyncio.create_task(world.control.follow(), name="follow records")
    await world.start_all()
    topics: list[LiveTopic] = []
    admin = Admin(world, topics)
    topics.append(await admin.create("synced", partitions=3, flushed=False))
    topics.append(await admin.create("flushed", partitions=2, flushed=True))
    tables = TableScene(world)
    await tables.create()
    clients: list[Actor] = [admin, Stranger(world, "stranger", topics), Router(world, topics)]
    clients.append(Straggler(world, admin.all_topics))
    clients += [Producer(world, f"plain{n}", topics) for n in range(2)]
    clients += [IdempotentProducer(world, f"exact{n}", topics, n + 1) for n in range(2)]
    clients += [Reader(world, f"reader{n}", topics) for n in range(2)]
    records = await create_records(world, admin.create)
    if records:
        clients += record_clients(world, records, topics)
        assigned = world.cluster_config.server_assigns
        clients += (assigned_members if assigned else members)(world, records)
        clients += followers(world, records)
        clients.append(Router(world, records, "record router"))
    workers = range(world.cluster_config.workers)
    clients += [Worker(world, f"{group}-w{n}", group, topics) for group in GROUPS for n in workers]
    if world.config.keeps:
        clients.append(EndReader(world, "ends", GROUPS, topics))
    clients = [*(clients if world.config.messages else ()), *tables.clients()]
    tasks = [asyncio.create_task(each.run(), name=each.name) for each in clients]
    await Nemesis(world).inject_faults()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await world.heal()
    auditor = ClusterAuditor(world, [*topics, *records])
    await auditor.probe()
    await auditor.check_balance()
    await auditor.check_schedule()
    await tables.probe()
    if rng.random() < 0.5:
        await world.stop_all()
        await world.heal()
        await asyncio.sleep(SETTLE_S)
    await auditor.read_all()
    if world.cluster_config.server_assigns:
        await read_positions(world, records)
    await tables.read_all()
    await auditor.read_usage()
    await world.stop_all()
    await auditor.verify()
    follower.cancel()
