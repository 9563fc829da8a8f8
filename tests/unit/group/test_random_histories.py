"""Random histories of two coordinators over one faulty store, judged by what the rows went through.

The judge reads every version of every row. A checkpoint may only change in a write that keeps the
owner (a commit) and only to an offset that this owner asked for; an owner may only change in a
write that keeps the checkpoint; a success reported to a worker must be one of the row's versions.
"""

import asyncio
import itertools
import random
from collections.abc import Sequence

import pytest
from tests.unit.catalog.support import MovableTime
from tests.unit.group.support import ALICE, LEASE_S, FaultyRows, commit, open_coordinator

from opentalos.adapters.memory import MemoryStorage
from opentalos.group.coordinator import Coordinator, WorkerSeat
from opentalos.group.row_format import PartitionRow, parse_row_key
from opentalos.model.errors import TalosError
from opentalos.ports.row_store import RowMutation

PARTITIONS = 3
STEPS = 450


class RecordingRows(FaultyRows):
    """Keeps every version of every partition row, and loses replies at random."""

    def __init__(self, storage: MemoryStorage, random_source: random.Random) -> None:
        super().__init__(storage)
        self._random = random_source
        self.versions: dict[int, list[PartitionRow]] = {p: [] for p in range(PARTITIONS)}
        self.faults = 0.1

    async def mutate_many(
        self, table: str, mutations: Sequence[RowMutation]
    ) -> Sequence[int | TalosError]:
        await asyncio.sleep(0)
        draw = self._random.random()
        if draw < self.faults:
            fault = self._random.choice(["apply_then_unknown", "unknown", "unavailable"])
            setattr(self, fault, self._random.choice([1, 1, 7]))
        elif draw < 2 * self.faults:
            self.apply_then_unknown = self.unknown = self.unavailable = 0
        try:
            return await super().mutate_many(table, mutations)
        finally:
            self._note()

    def _note(self) -> None:
        for key, state in self.storage.tables.get("groups", {}).items():
            partition = parse_row_key(key)[1]
            if partition is not None and not state.deleted:
                row = PartitionRow.decode(state.data)
                seen = self.versions[partition]
                if not seen or seen[-1] != row:
                    seen.append(row)


class History:
    """Drives workers over two coordinators and remembers the answers."""

    def __init__(self, rows: RecordingRows, random_source: random.Random) -> None:
        self.rows, self.random = rows, random_source
        self.workers = [WorkerSeat(f"w{number}", "") for number in range(4)]
        self.asked: set[tuple[int, str, int]] = set()  # partition, worker, offset
        self.committed: list[tuple[int, str, int]] = []  # answered with success

    async def step(self, coordinators: Sequence[Coordinator], time: MovableTime) -> None:
        groups, seat = self.random.choice(coordinators), self.random.choice(self.workers)
        partition = self.random.randrange(PARTITIONS)
        action = self.random.choice(
            ["lock", "renew", "commit", "commit", "unlock", "sleep", "move"]
        )
        try:
            if action == "lock":
                await groups.lock_partitions(ALICE, seat, [partition])
            elif action == "renew":
                await groups.renew(ALICE, seat, range(PARTITIONS))
            elif action == "unlock":
                await groups.unlock_partitions(ALICE, seat.worker, [partition])
            elif action == "move":
                groups.forget_all()
            elif action == "sleep":
                time.advance(self.random.choice([1.0, LEASE_S / 2, LEASE_S]))
            else:
                offset = self.random.randrange(100)
                self.asked.add((partition, seat.worker, offset))
                if await groups.commit(ALICE, commit(seat.worker, offset, partition=partition)):
                    self.committed.append((partition, seat.worker, offset))
        except TalosError:
            pass  # not done, or unknown: the rows decide

    def judge(self) -> None:
        for partition, versions in self.rows.versions.items():
            for before, after in itertools.pairwise(versions):
                if after.checkpoint != before.checkpoint:
                    assert after.owner == before.owner, "commit and grant in one write"
                    assert (partition, after.owner, after.checkpoint) in self.asked
                if after.owner not in ("", before.owner):
                    assert after.generation == before.generation + 1
                assert after.generation >= before.generation
        for partition, worker, offset in self.committed:
            assert any(
                (row.owner, row.checkpoint) == (worker, offset)
                for row in self.rows.versions[partition]
            ), f"{worker} got a success for {offset}"


@pytest.mark.parametrize("seed", range(12))
async def test_only_holders_move_checkpoints_whatever_the_store_does(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opentalos.group.row_writer.UNKNOWN_PAUSE_S", 0.0)
    time = MovableTime(asyncio.get_running_loop())
    source = random.Random(seed)
    rows = RecordingRows(MemoryStorage(), source)
    history = History(rows, source)
    coordinators = [
        await open_coordinator(rows, first_token=n * 10_000, server=f"s{n}") for n in range(2)
    ]
    for _ in range(STEPS // 3):
        await asyncio.gather(*(history.step(coordinators, time) for _ in range(3)))
    history.judge()
    assert history.committed


async def test_one_coordinator_never_shows_a_partition_twice_nor_two_holders() -> None:
    time = MovableTime(asyncio.get_running_loop())
    source = random.Random(99)
    rows = RecordingRows(MemoryStorage(), source)
    rows.faults = 0.0
    history = History(rows, source)
    groups = await open_coordinator(rows)
    for _ in range(STEPS):
        await history.step([groups], time)
        held = [p for shown in (await groups.holdings(ALICE, 8)).values() for p in shown]
        assert len(held) == len(set(held))
    history.judge()
