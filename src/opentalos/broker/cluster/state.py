"""ClusterState: this server's copy of every control record, kept up to date by watches."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentalos.broker.cluster.records import (
    ASSIGNMENT,
    CONTROL,
    LEADER,
    LEAVING,
    RING,
    SERVERS,
    WEIGHTS,
    AssignmentRecord,
    ControlRecord,
    Leader,
    LeavingRecord,
    RingRecord,
    ServerRecord,
    WeightsRecord,
    decode_any,
    decode_record,
    encode_record,
)
from opentalos.catalog.records.record_index import Codec, RecordIndex, record_path
from opentalos.model.errors import TalosError
from opentalos.ports.meta_store import MetaStore

FOLLOW_INTERVAL_S = 0.02  # a move waits for these records, so they are followed closely


def server_path(name: str) -> str:
    """Path of a server's ephemeral record."""
    return record_path(SERVERS, name)


def leaving_path(name: str) -> str:
    """Path of a server's announced restart or drain."""
    return record_path(LEAVING, name)


def assignment_path(topic_uuid: str) -> str:
    """Path of a topic's assignment."""
    return record_path(ASSIGNMENT, topic_uuid)


class ClusterState:
    """Four watches. ``changed(path)`` is called just before a change is visible here, so it may
    only take a note (set an event).

    Own writes go through the indexes, except ephemeral ones: the watch shows those.
    """

    def __init__(self, meta: MetaStore, changed: Callable[[str], None]) -> None:
        def notify(path: str, _old: object, _new: object) -> None:
            changed(path)

        def index(prefix: str, decode: Callable[[bytes], Any]) -> RecordIndex[Any]:
            codec = Codec(encode_record, decode)
            return RecordIndex(meta, prefix, codec, notify, interval_s=FOLLOW_INTERVAL_S)

        def only(kind: type[Any]) -> Callable[[bytes], Any]:
            return lambda value: decode_record(kind, value)

        self.meta = meta
        self.servers: RecordIndex[ServerRecord] = index(SERVERS, only(ServerRecord))
        self.leaving: RecordIndex[LeavingRecord] = index(LEAVING, only(LeavingRecord))
        self.control: RecordIndex[ControlRecord] = index(CONTROL, decode_any)
        self.assignments: RecordIndex[AssignmentRecord] = index(ASSIGNMENT, only(AssignmentRecord))
        self._indexes: tuple[RecordIndex[Any], ...] = (
            self.servers,
            self.leaving,
            self.control,
            self.assignments,
        )
        self._expected: Mapping[str, ServerRecord] = {}
        self._expected_until_s = float("-inf")

    async def start(self) -> None:
        """Load everything, then follow. Raises: NewerFormat, CorruptLog, Unavailable."""
        for index in self._indexes:
            await index.start()

    async def close(self) -> None:
        """Stop following."""
        for index in reversed(self._indexes):
            await index.close()

    async def refresh(self, topic_uuid: str) -> None:
        """Read the ring again, and a topic's assignment if one is named. Raises: TalosError."""
        await self.control.refresh(RING)
        if topic_uuid:
            await self.assignments.refresh(assignment_path(topic_uuid))

    async def reload(self) -> None:
        """Read everything again; after it returns, answers are as new as the call."""
        for index in self._indexes:
            await index.reload()

    def live(self) -> Mapping[str, ServerRecord]:
        """Registered servers by name."""
        return {record.name: record for _, record in self.servers.items()}

    def expect(self, servers: Mapping[str, ServerRecord], until_s: float) -> None:
        """Expect these to register again until then, after coordination was away for all."""
        self._expected, self._expected_until_s = servers, until_s

    def expected(self) -> Mapping[str, ServerRecord]:
        """Servers that are not registered now and are expected to be soon, by name."""
        if asyncio.get_running_loop().time() >= self._expected_until_s:
            return {}
        live = self.live()
        return {name: record for name, record in self._expected.items() if name not in live}

    @property
    def leader(self) -> Leader | None:
        """Who the controller is."""
        found = self.control.get(LEADER)
        return found if isinstance(found, Leader) else None

    @property
    def ring(self) -> RingRecord | None:
        """The servers on the ring."""
        found = self.control.get(RING)
        return found if isinstance(found, RingRecord) else None

    @property
    def weights(self) -> WeightsRecord | None:
        """Virtual nodes that an operator set."""
        found = self.control.get(WEIGHTS)
        return found if isinstance(found, WeightsRecord) else None

    def assigned_topics(self) -> Sequence[str]:
        """Uuids of all topics with an assignment."""
        return [path.partition("/")[2] for path, _ in self.assignments.items()]

    def assignment(self, topic_uuid: str) -> AssignmentRecord | None:
        """A topic's assignment."""
        return self.assignments.get(assignment_path(topic_uuid))


async def put_record(index: RecordIndex[Any], path: str, record: Any) -> None:
    """Create a persistent record or replace whatever is there. Raises: TalosError."""
    if index.get(path) is None:
        try:
            await index.create(path, record)
        except TalosError:
            if index.get(path) is None:
                raise
        else:
            return
    await index.change(path, lambda _: record)
