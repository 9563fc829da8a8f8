"""The audit of metering at the end of a run: the events in __usage, and the blocks in storage."""

import asyncio
import json

from opentalos.broker.broker import Broker
from opentalos.broker.messaging.plain_messages import Bounds, Spot
from opentalos.model.errors import TalosError
from opentalos.model.identity import Principal
from opentalos.model.names import SYSTEM_TENANT, USAGE_TOPIC
from opentalos.testing.simulation.clients.message_clients import RETRY_S, Client
from opentalos.testing.simulation.stores.disk import SEGMENT_SUFFIX, SimulatedDisk
from opentalos.testing.simulation.stores.stored_journals import JOURNAL_SUFFIX, laid_over
from opentalos.testing.simulation.stores.stored_logs import Partition, stored_logs
from opentalos.testing.simulation.world.server import ServerLost, UnansweredBug
from opentalos.testing.simulation.world.world import World
from opentalos.wire.metrics.egress import EGRESS_KIND
from opentalos.wire.metrics.kept import KEPT_KIND

ROOT = Principal(id="root", number=1, admin=True)
PATIENCE_S = 60.0  # after the faults everything must be metered within this time
POLL_S = 2.0
PAGE = Bounds(messages_max=10_000, bytes_max=8 << 20)
_FIELDS = ("topic", "partition", "minute_ms", "bytes", "first_offset", "next_offset")
_EGRESS_FIELDS = ("topic", "reader", "minute_ms", "source", "number", "messages", "bytes")
_KEPT_FIELDS = ("topic", "partition", "minute_ms", "start_offset")
_NOTES = {
    "": ("usage-event", _FIELDS),
    EGRESS_KIND: ("egress-event", _EGRESS_FIELDS),
    KEPT_KIND: ("kept-event", _KEPT_FIELDS),
}

Lines = list[bytes]


class UsageAuditor(Client):
    """Reads __usage until it covers everything or ``PATIENCE_S`` has passed, for the checker."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "usage auditor")
        self._system_topics: set[str] = set()

    async def read_usage(self, ends: dict[Partition, int]) -> None:
        """Note every event. ``ends``: next offsets of the partitions that still exist."""
        until_s = self.world.loop.time() + PATIENCE_S
        while True:
            lines = await self._lines()
            late = self.world.loop.time() > until_s
            if late or (lines is not None and _covers_all(lines, ends)):
                break
            await asyncio.sleep(POLL_S)
        for line in lines or ():
            event = json.loads(line)
            kind, fields = _NOTES[event.get("kind", "")]
            self.world.recorder.note(kind, **{name: event[name] for name in fields})

    def note_stored(self) -> None:
        """Note all blocks that were ever committed; call this when no server runs."""
        world = self.world
        files = laid_over(_segments(world.disk), _files(world.disk, JOURNAL_SUFFIX).values())
        for (topic, partition), blocks, sure in stored_logs(world.disk.records, files):
            if topic in self._system_topics:
                continue
            world.recorder.note(
                "stored-blocks",
                topic=topic,
                partition=partition,
                minute_ms=world.config.minute_ms,
                blocks=[list(block) for block in blocks],
                sure=sure,
            )

    async def _lines(self) -> Lines | None:
        server = await self.server()
        try:
            return await server.call("usage", self._read, timeout_s=self.world.config.call_s)
        except (TalosError, ServerLost, UnansweredBug):
            await asyncio.sleep(RETRY_S)
            return None

    async def _read(self, broker: Broker) -> Lines:
        topic = broker.context.topics.record(SYSTEM_TENANT, USAGE_TOPIC)
        found: Lines = []
        if topic is None:
            return found
        self._system_topics.add(topic.uuid)
        self.world.recorder.note("usage-topic", topic=topic.uuid)
        for partition in range(topic.partitions):
            offset = 0
            while True:
                page = await broker.plain_messages.get_anywhere(
                    ROOT, topic.resource, Spot(partition, offset), PAGE
                )
                found += [event.message.data for event in page.messages]
                offset = page.next_offset
                if not page.messages:
                    break
        return found


def _segments(disk: SimulatedDisk) -> dict[str, bytes]:
    """Every segment file that ever existed."""
    return _files(disk, SEGMENT_SUFFIX)


def _files(disk: SimulatedDisk, suffix: str) -> dict[str, bytes]:
    """Every file of the kind that ever existed.

    A server that does not know of a topic's deletion may create a file of the same name again.
    """
    there = {path: bytes(file.content) for path, file in disk.files.items()} | disk.removed
    return {path: content for path, content in there.items() if path.endswith(suffix)}


def _covers_all(lines: Lines, ends: dict[Partition, int]) -> bool:
    metered: dict[Partition, int] = {}
    for line in lines:
        event = json.loads(line)
        if "kind" in event:
            continue
        key = (event["topic"], event["partition"])
        metered[key] = max(metered.get(key, 0), event["next_offset"])
    return all(metered.get(key, 0) >= end for key, end in ends.items())
