"""The standard workload: all kinds of clients at once, then probes and an audit of everything."""

import asyncio
from typing import Protocol

from opentalos.broker.admin.stored.log_verify import verify_logs
from opentalos.broker.broker import Broker
from opentalos.broker.values import Topic
from opentalos.model.errors import TalosError
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
from opentalos.testing.simulation.clients.storage_clients import (
    Crowd,
    DurabilityChanger,
    EndReader,
    Neighbour,
    Poisoner,
)
from opentalos.testing.simulation.clients.tables.workload import TableScene
from opentalos.testing.simulation.clients.topics.admin import GROUPS, Admin
from opentalos.testing.simulation.clients.topics.shared_topics import sharing_clients
from opentalos.testing.simulation.clients.usage_audit import UsageAuditor
from opentalos.testing.simulation.history import (
    CORRUPT,
    HARMS,
    Operation,
    harmed_partitions,
    is_harmed,
)
from opentalos.testing.simulation.stores.damage.rot import rotten_by
from opentalos.testing.simulation.stores.faults import FileFaults, MetaFaults
from opentalos.testing.simulation.stores.faulty_files import FaultyFileStore
from opentalos.testing.simulation.stores.faulty_meta import FaultyMetaStore
from opentalos.testing.simulation.stores.stored_journals import (
    journals_with_files,
    name_of_journal,
)
from opentalos.testing.simulation.world.server import ServerLost, SimulatedServer, UnansweredBug
from opentalos.testing.simulation.world.world import World

PATIENCE_S = 90.0  # after the faults everything must work again within this time
JOURNALS_END_S = 20.0  # the search after a start, the recoveries, and some that are tried again
SETTLE_S = 5.0  # until every server knows the last change of a topic
ANSWER_S = 30.0  # until every open call must have a reply
FINAL = (CORRUPT, "TopicNotExist")  # errors that no waiting ends
SIDE_INDEX = ("side index", ".idx")  # words in findings about side indexes


class Finding(Protocol):
    """A finding of the log verification."""

    @property
    def problem(self) -> bool: ...
    @property
    def text(self) -> str: ...
    @property
    def file(self) -> str: ...


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
        damaged = world.disk.damaged_journals or world.disk.resurrected
        if damaged or any(map(world.recorder.history.noted, (*HARMS, "usurped"))) or not former:
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
        for path, kind in world.disk.damaged_journals.items():
            for found in rotten_by(world.disk, path):  # also those that named it later
                world.recorder.note(kind, **found._asdict())
        for text in world.damages.good.missing():
            world.recorder.note("good-file-deleted", text=text)
        excused = [note.args["topic"] for kind in HARMS for note in history.noted(kind)]
        excused += map(name_of_journal, world.disk.damaged_journals)
        excused += SIDE_INDEX  # writing one may fail; it is rebuilt when needed
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
            put = await self._put_probe(await self.server(), topic, partition, late)
            if put.ok or late or self._refuses(put):
                return
            await asyncio.sleep(RETRY_S)

    async def probe_once(self, server: SimulatedServer, topic: LiveTopic, partition: int) -> bool:
        """One put."""
        return (await self._put_probe(server, topic, partition, late=False)).ok

    async def _put_probe(
        self, server: SimulatedServer, topic: LiveTopic, partition: int, late: bool
    ) -> Operation:
        """One put, which must succeed if it is ``late``."""
        self._number += 1
        blocks = [self.block([f"probe.{self._number}"])]
        args = {"healed": True} if late else {}
        return await self.put(server, topic, partition, blocks, **args)

    def _refuses(self, operation: Operation) -> bool:
        """Whether a damaged partition refuses to answer, as it will until it is repaired.

        An older catalogue may have lost its topic.
        """
        if not self.world.config.keeps or not any(each in operation.error for each in FINAL):
            return False
        return is_harmed(operation, harmed_partitions(self.world.recorder.history))

    async def _read_partition(self, topic: LiveTopic, partition: int) -> None:
        until_s = self.world.loop.time() + PATIENCE_S
        while True:
            late = self.world.loop.time() > until_s
            operation = await self._read_once(topic, partition, late)
            if operation.ok or late or self._refuses(operation):
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
        asked, found = await self.asked_range(server, topic, partition, **args)
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
            self.world.recorder.fail(operation, f"no range: {asked.error}")
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
    if config.keeps:
        clients += [EndReader(world, f"ends{n}", GROUPS, topics) for n in range(2)]
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
