"""The standard workload: all kinds of clients at once, then probes and an audit of everything."""

import asyncio
from typing import Protocol

from opentalos.broker.admin.stored.log_verify import verify_logs
from opentalos.broker.broker import Broker
from opentalos.broker.values import AttributeChange, CheckpointKey, NewTopic, Topic
from opentalos.model.errors import TalosError
from opentalos.model.identity import Principal
from opentalos.model.names import uuid_of
from opentalos.testing.simulation.clients.group_clients import Worker
from opentalos.testing.simulation.clients.message_clients import (
    NEIGHBOUR,
    OWNER,
    RETRY_S,
    Actor,
    Client,
    IdempotentProducer,
    LiveTopic,
    Producer,
    Reader,
    Stranger,
    decode_blocks,
)
from opentalos.testing.simulation.clients.records.scene import create_records, record_clients
from opentalos.testing.simulation.clients.shared_topics import share_with_neighbour, sharing_clients
from opentalos.testing.simulation.clients.storage_clients import (
    Crowd,
    DurabilityChanger,
    Neighbour,
    Poisoner,
)
from opentalos.testing.simulation.clients.tables.workload import TableScene
from opentalos.testing.simulation.clients.usage_audit import UsageAuditor
from opentalos.testing.simulation.history import Operation
from opentalos.testing.simulation.stores.faults import FileFaults, MetaFaults
from opentalos.testing.simulation.stores.faulty_files import FaultyFileStore
from opentalos.testing.simulation.stores.faulty_meta import FaultyMetaStore
from opentalos.testing.simulation.stores.rot import rotten_by
from opentalos.testing.simulation.stores.stored_journals import journals_with_files
from opentalos.testing.simulation.world.server import ServerLost, SimulatedServer, UnansweredBug
from opentalos.testing.simulation.world.world import World

PATIENCE_S = 90.0  # after the faults everything must work again within this time
JOURNALS_END_S = 20.0  # the search after a start, the recoveries, and some that are tried again
SETTLE_S = 5.0  # until every server knows the last change of a topic
ANSWER_S = 30.0  # until every open call must have a reply
SIDE_INDEX = ("side index", ".idx")  # in findings; writing one may fail, it is rebuilt
PARTITIONS_MAX = 3
GROUPS = ("g1", "g2")
RETENTION_S = (4, 8, 3_600)  # of a topic, one of these
RETENTION_BYTES = (2 << 10, 6 << 10)


class Finding(Protocol):
    """A finding of the log verification."""

    @property
    def problem(self) -> bool: ...
    @property
    def text(self) -> str: ...
    @property
    def file(self) -> str: ...


class Admin(Client):
    """Creates, deletes, recreates, grows and changes topics."""

    def __init__(self, world: World, topics: list[LiveTopic]) -> None:
        super().__init__(world, "admin")
        self.topics, self.all_topics = topics, list[LiveTopic]()

    async def create(
        self, name: str, *, partitions: int, flushed: bool, owner: Principal = OWNER
    ) -> LiveTopic:
        """Create a topic; retry while faults prevent it."""
        attributes = {"durability": "flushed" if flushed else "synced"}
        if self.rng.random() < 0.4:
            attributes["retention.bytes"] = str(self.rng.choice(RETENTION_BYTES))
        new = NewTopic(
            name=name,
            partitions=partitions,
            retention_s=self.rng.choice(RETENTION_S),
            attributes=attributes,
        )
        while True:
            server = await self.server()
            try:
                topic = await server.call(
                    "create", lambda broker: broker.topics.create_topic(owner, new), timeout_s=6
                )
            except (TalosError, ServerLost, UnansweredBug):
                found = await self._find(server, name, owner)
                if found is None:
                    await asyncio.sleep(RETRY_S)
                    continue
                topic = found
            live = LiveTopic(topic.resource, name, topic.partitions, flushed, owner=owner)
            self.all_topics.append(live)
            if self.world.config.shared and owner == OWNER:
                await share_with_neighbour(self, live)
            self.world.recorder.note(
                "topic",
                topic=live.resource,
                durability=attributes["durability"],
                retention_s=new.retention_s,
                retention_bytes=attributes.get("retention.bytes"),
            )
            return live

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.think(20)
            at = self.rng.randrange(len(self.topics))
            topic = self.topics[at]
            if topic.owner != OWNER:
                continue
            if self.rng.random() < 0.3:
                topic.deleted = True
                await self._delete_until_done(topic)
                self.topics[at] = await self.create(
                    topic.name,
                    partitions=self.rng.choice([1, 2]),
                    flushed=topic.flushed,
                )
            elif self.rng.random() < 0.3:
                await self._reset(topic)
            else:
                await self._change(topic)

    async def _reset(self, topic: LiveTopic) -> None:
        """Reset a group's offset as an operator; the lease holder loses the partition."""
        server = await self.server()
        group, partition = self.rng.choice(GROUPS), self.rng.randrange(topic.partitions)
        offset = self.rng.randint(-1, max(0, topic.reached.get(partition, 0) - 1))
        operation = self.world.recorder.invoke(
            self.name,
            "reset",
            group=group,
            topic=topic.resource,
            partition=partition,
            offset=offset,
            server=server.name,
        )
        key = CheckpointKey(group, topic.resource, partition)

        async def reset(broker: Broker) -> bool:
            await broker.consumers.reset_checkpoint(topic.owner, key, offset)
            return True

        if await self.ask(server, operation, reset):
            self.world.recorder.ok(operation)

    async def _find(self, server: SimulatedServer, name: str, owner: Principal) -> Topic | None:
        # A create whose reply was lost may have taken effect, now or a moment later.
        async def find(broker: Broker) -> Topic:
            return broker.topics.find_topic(owner, name)

        known = {topic.resource for topic in self.all_topics}
        try:
            topic = await server.call("find", find, timeout_s=6)
        except (TalosError, ServerLost, UnansweredBug):
            return None
        return topic if topic.resource not in known else None

    async def _delete_until_done(self, topic: LiveTopic) -> None:
        while True:
            if await self._delete(topic):
                return
            await asyncio.sleep(RETRY_S)

    async def _delete(self, topic: LiveTopic) -> bool:
        server = await self.server()
        operation = self.world.recorder.invoke(
            self.name, "delete", topic=topic.resource, server=server.name
        )

        async def delete(broker: Broker) -> bool:
            await broker.topics.delete_topic(OWNER, topic.resource)
            return True

        if await self.ask(server, operation, delete):
            self.world.recorder.ok(operation)
        return operation.ok or operation.error.startswith("TopicNotExist")

    async def _change(self, topic: LiveTopic) -> None:
        server = await self.server()
        partitions = topic.partitions + self.rng.choice([-1, 0, 1])
        changes = partitions != topic.partitions and 1 <= partitions <= PARTITIONS_MAX
        change = AttributeChange(
            partitions=partitions if changes else None,
            retention_s=self.rng.choice(RETENTION_S),
        )
        operation = self.world.recorder.invoke(
            self.name, "alter", topic=topic.resource, retention_s=change.retention_s
        )
        try:
            changed = await server.call(
                "change",
                lambda broker: broker.topics.change_attribute(OWNER, topic.resource, change),
                timeout_s=6,
            )
        except (TalosError, ServerLost, UnansweredBug) as error:
            self.record_failure(operation, error)
            return
        self.world.recorder.ok(operation)
        topic.partitions = changed.partitions


class Auditor(Client):
    """Checks that everything works once all faults have ended, and reads everything."""

    def __init__(self, world: World, topics: list[LiveTopic]) -> None:
        super().__init__(world, "auditor")
        self.topics = [topic for topic in topics if not topic.deleted]
        self._dead = {
            uuid_of(each.args["topic"]) for each in world.recorder.history.of("delete") if each.ok
        }
        self._number = 0
        self._usage = UsageAuditor(world)

    async def probe(self) -> None:
        """Put into every partition, and note the calls that never get a reply."""
        await asyncio.sleep(SETTLE_S)
        for topic in self.topics:
            await self._count_partitions(topic)
            for partition in range(topic.partitions):
                await self._probe(topic, partition)
        await asyncio.sleep(ANSWER_S)
        for server in self.world.running():
            for call in server.unanswered():
                self.world.recorder.note("unanswered", text=f"{call} at {server}")

    async def restart_unused(self) -> None:
        """Crash, start and use nothing: the journals of all former servers end all the same.

        Not those that may be damaged, or that a manifest names whose topic a rival deleted.
        """
        world = self.world
        await world.crash()
        former = journals_with_files(world.disk.files)
        await world.start_server()
        damaged = world.disk.rotten_journals or world.disk.resurrected
        if damaged or any(map(world.recorder.history.noted, ("rot", "usurped"))) or not former:
            return
        await asyncio.sleep(JOURNALS_END_S)
        left = journals_with_files(world.disk.files)
        for name in former:
            if name in left:
                world.recorder.note("journal-left", text=name)

    async def read_all(self) -> None:
        """Read the final log of every partition, and every committed offset."""
        workers = [Worker(self.world, f"auditor-{group}", group, []) for group in GROUPS]
        for topic in self.topics:
            for partition in range(topic.partitions):
                await self._read_partition(topic, partition)
                await self._read_deleted(topic, partition)
                server = await self.server()
                for worker in workers:
                    await worker.checkpoint(server, topic, partition, healed=True)

    async def read_usage(self) -> None:
        """Read every usage event, once they cover all that the final reads found."""
        if not self.world.metered:
            return
        finals = [each for each in self.world.recorder.history.of("read", "changes") if each.ok]
        living = {topic.resource for topic in self.topics}
        ends = {
            (uuid_of(each.args["topic"]), each.args["partition"]): each.result["next"]
            for each in finals
            if each.action == "changes" or (each.args.get("final") and each.args["topic"] in living)
        }
        await self._usage.read_usage(ends)

    async def verify(self) -> None:
        """Verify storage when no server runs: it is consistent, and deleted topics are gone."""
        world = self.world
        if world.metered:
            self._usage.note_stored()
        process = world.loop.process("verifier")
        files = FaultyFileStore(world.disk, process, FileFaults())
        meta = FaultyMetaStore(world.disk, process, MetaFaults())
        history = world.recorder.history
        for path in world.disk.rotten_journals:
            for found in rotten_by(world.disk, path):  # also those that named it later
                world.recorder.note("rot", **found._asdict())
        excused = [note.args["topic"] for note in history.noted("rot")]
        excused += [*SIDE_INDEX, *(path.split("/")[1] for path in world.disk.rotten_journals)]
        excused += list(world.disk.resurrected)
        if history.noted("usurped"):
            # A stand-alone server assumes that no other one deletes topics: its guard asks no one.
            excused += sorted(self._dead)

        def report(finding: Finding) -> None:
            shown = f"{finding.text} {finding.file}"  # a text may name the topic only
            if finding.problem and not any(part in shown for part in excused):
                world.recorder.note("verify-fault", text=finding.text)

        await verify_logs(files, meta, report, lambda done, total: None)
        for path in world.disk.files:
            topic_uuid = path.split("/", 1)[0]
            if topic_uuid in self._dead and not {topic_uuid, path} & set(excused):
                world.recorder.note("left-behind", text=path)

    async def _count_partitions(self, topic: LiveTopic) -> None:
        # The outcome of the last change may be unknown to the admin.
        async def find(broker: Broker) -> Topic:
            return broker.topics.find_topic(topic.owner, topic.name)

        server = await self.server()
        try:
            found = await server.call("find", find, timeout_s=PATIENCE_S)
        except (TalosError, ServerLost, UnansweredBug):
            return
        if found.resource == topic.resource:
            topic.partitions = found.partitions

    async def _probe(self, topic: LiveTopic, partition: int) -> None:
        until_s = self.world.loop.time() + PATIENCE_S
        while True:
            late = self.world.loop.time() > until_s
            if await self.probe_once(await self.server(), topic, partition, late) or late:
                return
            await asyncio.sleep(RETRY_S)

    async def probe_once(
        self, server: SimulatedServer, topic: LiveTopic, partition: int, late: bool = False
    ) -> bool:
        """One put, which must succeed if it is ``late``."""
        self._number += 1
        blocks = [self.block([f"probe.{self._number}"])]
        put = await self.put(server, topic, partition, blocks, **({"healed": True} if late else {}))
        return put.ok

    async def _read_partition(self, topic: LiveTopic, partition: int) -> None:
        until_s = self.world.loop.time() + PATIENCE_S
        while True:
            late = self.world.loop.time() > until_s
            operation = await self._read_once(topic, partition, late)
            if operation.ok or late:
                return
            await asyncio.sleep(RETRY_S)

    async def _read_deleted(self, topic: LiveTopic, partition: int) -> None:
        """Ask for what was deleted last; it must be refused."""
        start = topic.deleted_below.get(partition, 0)
        if start:
            await self.get(await self.server(), topic, partition, start - 1, quiet=True)

    async def _read_once(self, topic: LiveTopic, partition: int, late: bool) -> Operation:
        server = await self.server()
        args = {"healed": True} if late else {}
        found = await self.range(server, topic, partition, **args)
        operation = self.world.recorder.invoke(
            self.name,
            "read",
            topic=topic.resource,
            partition=partition,
            offset=-1,
            final=True,
            **args,
        )
        if found is None:
            self.world.recorder.fail(operation, "no range")
            return operation
        blocks: list[tuple[int, list[str | None]]] = []
        times: list[tuple[int, int]] = []
        offset = found.start
        while offset < found.next:
            read, result = await self.get(server, topic, partition, offset)
            if result is None or not result.blocks:
                self.world.recorder.fail(operation, f"at {offset}: {read.error or 'nothing'}")
                return operation
            # The log may begin within a block.
            for base, ids in decode_blocks(result):
                blocks.append((max(base, offset), ids[max(0, offset - base) :]))
            times += [(max(each.base_offset, offset), each.append_ms) for each in result.blocks]
            offset = result.blocks[-1].next_offset
        times = list(dict.fromkeys(times))  # two replies may contain the same block
        self.world.recorder.ok(
            operation, blocks=blocks, start=found.start, next=offset, times=times
        )
        if times:
            await self._look_up(server, topic, partition, times)
        return operation

    async def _look_up(
        self,
        server: SimulatedServer,
        topic: LiveTopic,
        partition: int,
        times: list[tuple[int, int]],
    ) -> None:
        """Look up a time: the result is the first block appended then or later."""
        asked_ms = self.rng.choice(times)[1] + self.rng.choice([0, 0, 1, -1])
        later = [offset for offset, append_ms in times if append_ms >= asked_ms]
        expected = min(later, default=None)
        lookup = self.world.recorder.invoke(
            self.name,
            "lookup",
            topic=topic.resource,
            partition=partition,
            time_ms=asked_ms,
            expected=expected,
            server=server.name,
        )
        offset = await self.ask(
            server,
            lookup,
            lambda broker: broker.messages.offset_at(
                topic.owner, topic.resource, partition, asked_ms
            ),
        )
        if offset is None:
            return
        result = {"offset": offset}
        if offset != expected:  # retention may have dropped it meanwhile
            found = await self.range(server, topic, partition)
            result |= {} if found is None else {"start": found.start}
        self.world.recorder.ok(lookup, **result)


def _message_clients(world: World, topics: list[LiveTopic]) -> list[Actor]:
    clients: list[Actor] = [Stranger(world, "stranger", topics)]
    clients += [Producer(world, f"plain{n}", topics) for n in range(2)]
    exact = range(world.config.producers)
    clients += [IdempotentProducer(world, f"exact{n}", topics, n + 1) for n in exact]
    clients += [Reader(world, f"reader{n}", topics) for n in range(2)]
    clients += [Worker(world, f"{group}-w{n}", group, topics) for group in GROUPS for n in range(2)]
    return clients


async def _storage_clients(
    world: World, admin: Admin, topics: list[LiveTopic], records: list[LiveTopic]
) -> list[Actor]:
    """Clients that only the storage worlds have."""
    config, clients = world.config, list[Actor]()
    if config.neighbour:
        other = await admin.create("beside", partitions=2, flushed=False, owner=NEIGHBOUR)
        topics.append(other)
        clients.append(Neighbour(world, "neighbour", topics))
    if config.shared:
        clients += sharing_clients(world, GROUPS, topics)
    if config.records:
        clients += record_clients(world, records, topics)
    if config.crowded:
        clients += [Crowd(world, f"crowd{n}", topics) for n in range(2)]
    if config.changed:
        clients.append(DurabilityChanger(world, "changer", topics))
    if world.stores.files.poison:
        clients.append(Poisoner(world, "poisoner", topics))
        until_s = world.loop.time() + config.chaos_s
        world.recorder.note("tenant-fails", tenant=OWNER.id, until_s=until_s)

    def folders() -> tuple[str, list[str]]:
        mine = [topic for topic in topics if topic.owner == OWNER]
        return OWNER.id, [
            f"{topic.uuid}/{partition}" for topic in mine for partition in range(topic.partitions)
        ]

    world.crowd_from(folders)
    return clients


async def standard_workload(world: World) -> None:
    """Faults, then healing, probes, a restart, and the final reads."""
    rng = world.rng("workload")
    await world.start_server()
    topics: list[LiveTopic] = []
    admin = Admin(world, topics)
    topics.append(await admin.create("synced", partitions=world.config.partitions, flushed=False))
    topics.append(await admin.create("flushed", partitions=1, flushed=True))
    tables = TableScene(world)
    await tables.create()
    clients: list[Actor] = [admin, *_message_clients(world, topics)]
    records = await create_records(world, admin.create)
    clients += await _storage_clients(world, admin, topics, records)
    clients = [*(clients if world.config.messages else ()), *tables.clients()]
    tasks = [asyncio.create_task(each.run(), name=each.name) for each in clients]
    await world.inject_faults()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await world.heal()
    auditor = Auditor(world, [*topics, *records])
    await auditor.probe()
    await tables.probe()
    if rng.random() < 0.5:
        await world.stop_server()
        await world.start_server()
    else:
        await auditor.restart_unused()
    await auditor.read_all()
    await tables.read_all()
    await auditor.read_usage()
    await world.stop_server()
    await auditor.verify()
