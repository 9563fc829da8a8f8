"""ControlView: a cluster's control records as the coordination service stores them."""

import asyncio
from collections.abc import Mapping

from opentalos.adapters.memory import MemoryMetaStore
from opentalos.broker.cluster.records import (
    ASSIGNMENT,
    LEADER,
    RING,
    SERVERS,
    AssignmentRecord,
    Leader,
    LeavingRecord,
    RingRecord,
    ServerRecord,
    decode_any,
    encode_record,
)
from opentalos.broker.cluster.state import leaving_path, server_path
from opentalos.testing.simulation.history import Recorder
from opentalos.testing.simulation.stores.disk import SimulatedDisk


class ControlView:
    """Reads the records without a network in between; ``follow`` notes changes for the checker."""

    def __init__(self, disk: SimulatedDisk, recorder: Recorder) -> None:
        self._records, self._recorder = disk.records, recorder
        self._meta = MemoryMetaStore(disk.records)

    def assignments(self) -> Mapping[str, AssignmentRecord]:
        """Published assignments by topic uuid."""
        start = f"{ASSIGNMENT}/"
        return {
            path.removeprefix(start): decode_any(kept.record.value)
            for path, kept in self._records.records.items()
            if path.startswith(start)
        }

    def controller(self) -> str:
        """Host of the controller; empty if there is none."""
        found = self._record(LEADER)
        return found.name if isinstance(found, Leader) else ""

    def ring(self) -> Mapping[str, object]:
        """Virtual nodes by host."""
        found = self._record(RING)
        return found.servers if isinstance(found, RingRecord) else {}

    def server(self, host: str) -> ServerRecord | None:
        """The registration of a host."""
        found = self._record(server_path(host))
        return found if isinstance(found, ServerRecord) else None

    def leaving(self, host: str) -> LeavingRecord | None:
        """The announced restart or drain of a host."""
        found = self._record(leaving_path(host))
        return found if isinstance(found, LeavingRecord) else None

    async def drain(self, leaving: LeavingRecord) -> None:
        """Request a drain of a host, as an operator does. Raises: AlreadyExists."""
        await self._meta.create(leaving_path(leaving.name), encode_record(leaving))

    async def follow(self) -> None:
        """Note published assignments and registrations until cancelled."""
        await asyncio.gather(self._follow_assignments(), self._follow_servers())

    def _record(self, path: str) -> object:
        kept = self._records.records.get(path)
        return decode_any(kept.record.value) if kept is not None else None

    async def _follow_assignments(self) -> None:
        shown: dict[str, int] = {}
        async for state in self._meta.watch(ASSIGNMENT):
            for path, record in state.items():
                if shown.get(path) != record.version:
                    topic, published = path.removeprefix(f"{ASSIGNMENT}/"), decode_any(record.value)
                    self._recorder.note(
                        "assigned",
                        topic=topic,
                        number=published.number,
                        owners=list(published.owners),
                        planned=sorted(map(int, published.moved_from)),
                    )
            for path in sorted(shown.keys() - state.keys()):
                self._recorder.note("forgotten", topic=path.removeprefix(f"{ASSIGNMENT}/"))
            shown = {path: record.version for path, record in state.items()}

    async def _follow_servers(self) -> None:
        shown: list[str] = []
        async for state in self._meta.watch(SERVERS):
            names = sorted(path.removeprefix(f"{SERVERS}/") for path in state)
            if names != shown:
                self._recorder.note("registered", servers=names)
            shown = names
