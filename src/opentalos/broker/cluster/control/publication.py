"""Publication: an assignment becomes records, each by compare-and-set; and which moves are over."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

from opentalos.broker.cluster.records import RING, AssignmentRecord, RingRecord, number_after
from opentalos.broker.cluster.state import ClusterState, assignment_path
from opentalos.catalog.records.record_index import RecordIndex
from opentalos.log.manifest.store import ManifestStore
from opentalos.model.errors import StoreUnavailable
from opentalos.model.message import PartitionKey
from opentalos.placement.steps import Pace
from opentalos.placement.values import Assignment
from opentalos.ports.clock import Clock

T = TypeVar("T")
Write = Callable[[], Awaitable[object]]
PORTION_MAX = 500  # records that are written before the next ones are looked for
WRITES_AT_ONCE = 32
RECENT_MAX = 200  # moves remembered for the status
FEWER_KEPT_S = 5.0  # a topic or partition that this server misses may only be not yet known here
SEALED_AFTER_S = 0.1  # a former owner has heard of the move by then
SLACK_S = 0.5  # beyond the time that a new owner waits


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A partition that changed, or changes, its server. ``planned``: the former one was alive."""

    topic_uuid: str
    partition: int
    source: str
    target: str
    planned: bool
    at_ms: int = 0  # when it was published; 0: not known here
    ended_ms: int = 0  # when the former server had released it; 0: not yet, or not known


class Basis(NamedTuple):
    """Records from which a plan is made; ``assignments`` by topic."""

    ring: RingRecord | None
    assignments: Mapping[str, AssignmentRecord]


class Publication:
    """What is published, and how the leader changes it.

    ``may_write`` is asked before each write. Every write expects exactly what was read when the
    plan was made; so of two controllers one only has to plan again.
    """

    def __init__(self, state: ClusterState, clock: Clock, may_write: Callable[[], bool]) -> None:
        self._state, self._clock, self._may_write = state, clock, may_write
        self._manifests = ManifestStore(state.meta, "")
        self._turns = asyncio.Semaphore(WRITES_AT_ONCE)
        self._fewer_since_s: dict[str, float] = {}  # topics that seem to have become smaller
        self._kept: set[str] = set()  # those of them that may only be not yet known here
        self._moving_since_s: dict[tuple[PartitionKey, str], float] = {}  # by source as well
        self.recent: deque[Move] = deque(maxlen=RECENT_MAX)
        self.planned_moves = 0
        self.takeovers = 0

    def owners(self) -> Mapping[PartitionKey, str]:
        """Server by partition, as published."""
        return {
            PartitionKey(uuid, partition): owner
            for uuid, record in self._records()
            for partition, owner in enumerate(record.owners)
        }

    def moved_from(self) -> Mapping[PartitionKey, str]:
        """Planned moves under way."""
        return {
            PartitionKey(uuid, int(partition)): source
            for uuid, record in self._records()
            for partition, source in record.moved_from.items()
        }

    def lent(self) -> Mapping[PartitionKey, str]:
        """Partitions that a restarting server takes back, with its name."""
        return {
            PartitionKey(uuid, int(partition)): lender
            for uuid, record in self._records()
            for partition, lender in record.lent.items()
        }

    def partitions(self, topics: Iterable[tuple[str, int]], now_s: float) -> Sequence[PartitionKey]:
        """All partitions to be placed.

        What was published and is missing in ``topics`` is either deleted or, if another controller
        made the assignment, not yet known here. So for a while it stays as it is: it is neither
        taken away nor moved.
        """
        counts = dict(topics)
        since_s = {
            uuid: self._fewer_since_s.get(uuid, now_s)
            for uuid, record in self._records()
            if counts.get(uuid, 0) < len(record.owners)
        }
        self._fewer_since_s = since_s
        self._kept = {uuid for uuid, at_s in since_s.items() if now_s < at_s + FEWER_KEPT_S}
        return [
            PartitionKey(uuid, number) for uuid in sorted(counts) for number in range(counts[uuid])
        ]

    def next_look_s(self, now_s: float) -> float:
        """Loop time at which ``partitions`` may say something else by itself."""
        times = (since_s + FEWER_KEPT_S for since_s in self._fewer_since_s.values())
        return min((time_s for time_s in times if time_s > now_s), default=float("inf"))

    def basis(self) -> Basis:
        """What a plan is made from: equal as long as nobody writes it."""
        return Basis(self._state.ring, dict(self._records()))

    async def unfinished(self, now_s: float, wait_s: float) -> Mapping[PartitionKey, str]:
        """Planned moves whose former owner has not sealed yet, for at most ``wait_s``."""
        moving = self.moved_from()
        # A move that ended may be followed at once by another one of the same partition.
        since_s = {move: self._moving_since_s.get(move, now_s) for move in moving.items()}
        self._moving_since_s = since_s
        began_s = {key: at_s for (key, _), at_s in since_s.items()}
        old = [key for key in moving if now_s >= began_s[key] + SEALED_AFTER_S]
        over = await self._bounded(partial(self._sealed, key, moving[key]) for key in old)
        ended = {key for key, sealed in zip(old, over, strict=True) if sealed is True}
        ended |= {key for key in old if now_s >= began_s[key] + wait_s + SLACK_S}
        return {key: source for key, source in moving.items() if key not in ended}

    async def publish(self, assignment: Assignment, basis: Basis) -> None:
        """Write what is new since the basis of the plan, many records in several portions.

        Raises: TalosError: some records may be as they were; plan again.
        """
        portion: list[Write] = []
        for write in self._writes(assignment, basis):
            if write is not None:
                portion.append(write)
                if len(portion) < PORTION_MAX:
                    continue
            await self._all(portion)
            portion = []
            await asyncio.sleep(0)
        await self._all(portion)

    # --- inside ---------------------------------------------------------------------------------

    def _records(self) -> Iterator[tuple[str, AssignmentRecord]]:
        for uuid in self._state.assigned_topics():
            record = self._state.assignment(uuid)
            if record is not None:
                yield uuid, record

    async def _all(self, writes: Sequence[Write]) -> None:
        for outcome in await self._bounded(writes):
            if isinstance(outcome, BaseException):
                raise outcome

    def _writes(self, assignment: Assignment, basis: Basis) -> Iterator[Write | None]:
        """What is to be written; None where other work may be done."""
        pace, ring = Pace(), basis.ring
        if ring is None or ring.servers != assignment.ring:
            turned = RingRecord(number=ring.number + 1 if ring else 1, servers=assignment.ring)
            yield partial(self._put, self._state.control, RING, ring, turned)
        owners: dict[str, list[str]] = {}
        for key, owner in assignment.owners.items():
            owners.setdefault(key.topic_uuid, []).append(owner)
            if pace.due():
                yield None
        moving, lent = _by_topic(assignment.moved_from), _by_topic(assignment.lent)
        for uuid, former in basis.assignments.items():
            if uuid not in owners and uuid not in self._kept:
                yield partial(self._remove, uuid, former)
        for uuid, names in owners.items():
            if pace.due(6):
                yield None
            before, moves = basis.assignments.get(uuid), moving.get(uuid, {})
            loans = lent.get(uuid, {})
            if before is not None and uuid in self._kept:
                names += before.owners[len(names) :]
            after = AssignmentRecord(
                number=number_after(before.number if before else 0, self._clock.wall_ms()),
                owners=tuple(names),
                moved_from=moves,
                lent=loans,
            )
            if before is None or before != replace(after, number=before.number):
                yield partial(self._write, uuid, before, after)

    async def _write(
        self, uuid: str, before: AssignmentRecord | None, after: AssignmentRecord
    ) -> None:
        await self._put(self._state.assignments, assignment_path(uuid), before, after)
        if before is not None:
            self._note_ended(uuid, before, after)
            self._note_moves(uuid, before, after)

    async def _remove(self, uuid: str, record: AssignmentRecord) -> None:
        self._check_may_write()
        await self._state.assignments.remove(assignment_path(uuid), record)

    async def _put(self, index: RecordIndex[Any], path: str, before: Any, after: Any) -> None:
        def change(stored: Any) -> Any:
            self._check_may_write()
            if stored != before:
                raise StoreUnavailable(f"another controller changed {path}")
            return after

        if before is None:
            self._check_may_write()
            await index.create(path, after)
        else:
            await index.change(path, change)

    def _check_may_write(self) -> None:
        if not self._may_write():
            raise StoreUnavailable("this server is not the controller any more")

    def _note_ended(self, uuid: str, before: AssignmentRecord, after: AssignmentRecord) -> None:
        """Planned moves of a topic that are over: what another controller began is not in here."""
        ended = {int(number) for number in before.moved_from if number not in after.moved_from}
        if not ended:
            return
        for place, move in enumerate(self.recent):
            if move.topic_uuid == uuid and move.partition in ended and not move.ended_ms:
                self.recent[place] = replace(move, ended_ms=self._clock.wall_ms())

    def _note_moves(self, uuid: str, before: AssignmentRecord, after: AssignmentRecord) -> None:
        for partition, (source, target) in enumerate(
            zip_longest(before.owners, after.owners, fillvalue="")
        ):
            if source and target and source != target:
                planned = str(partition) in after.moved_from
                self.planned_moves += planned
                self.takeovers += not planned
                move = Move(
                    topic_uuid=uuid,
                    partition=partition,
                    source=source,
                    target=target,
                    planned=planned,
                    at_ms=self._clock.wall_ms(),
                )
                self.recent.append(move)

    async def _sealed(self, key: PartitionKey, source: str) -> bool:
        held = await self._manifests.load(key)
        return held.manifest.unsealed is None or held.manifest.owner != source

    async def _bounded(
        self, calls: Iterable[Callable[[], Awaitable[T]]]
    ) -> Sequence[T | BaseException]:
        async def turn(call: Callable[[], Awaitable[T]]) -> T:
            async with self._turns:
                return await call()

        return await asyncio.gather(*map(turn, calls), return_exceptions=True)


def _by_topic(servers: Mapping[PartitionKey, str]) -> Mapping[str, dict[str, str]]:
    """Server by partition, as text, of each topic."""
    found: dict[str, dict[str, str]] = {}
    for key, server in servers.items():
        found.setdefault(key.topic_uuid, {})[str(key.partition)] = server
    return found
