"""The faulty stores: what crashes keep, what faults mean, and that seeds repeat."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest
from tests.unit.matrix import matrix

from opentalos.model.errors import (
    Fenced,
    OutcomeUnknown,
    RecoveryStuck,
    StorageFull,
    StoreUnavailable,
    WriterDead,
)
from opentalos.model.message import Durability
from opentalos.ports.row_store import ABSENT, RowMutation
from opentalos.testing.simulation.loop import SimulatedProcess, SimulationLoop
from opentalos.testing.simulation.stores.disk import SimulatedDisk, damaged_tail
from opentalos.testing.simulation.stores.faults import (
    FileFaults,
    MetaFaults,
    RowFaults,
    WorldFaults,
)
from opentalos.testing.simulation.stores.faulty_files import FaultyAppendFile, FaultyFileStore
from opentalos.testing.simulation.stores.faulty_meta import FaultyMetaStore
from opentalos.testing.simulation.stores.faulty_rows import FaultyRowStore
from opentalos.testing.simulation.world.clock import SimulatedClock

NO_FAULTS = FileFaults()
SEEDS = range(20)


class Scene:
    """A disk with a server on it."""

    def __init__(self, seed: int) -> None:
        self.loop = SimulationLoop()
        self.disk = SimulatedDisk(self.loop, random.Random(seed))
        self.process = self.loop.process("s1")

    def store(
        self, faults: FileFaults = NO_FAULTS, process: SimulatedProcess | None = None
    ) -> FaultyFileStore:
        return FaultyFileStore(self.disk, process or self.process, faults)


def play(scenario: Callable[[Scene], Awaitable[None]], seed: int = 1) -> None:
    """Run a scenario on a fresh disk."""
    scene = Scene(seed)

    async def main() -> None:
        await scenario(scene)

    scene.loop.run(main())


async def written(store: FaultyFileStore, durability: Durability) -> FaultyAppendFile:
    file = await store.create("t/0", durability=durability)
    await file.commit([b"kept"])
    return file


@matrix("seed", SEEDS)
def test_what_a_synced_commit_acknowledged_survives_a_power_loss(seed: int) -> None:
    async def scenario(scene: Scene) -> None:
        file = await written(scene.store(), Durability.SYNCED)
        scene.process.create_task(_commit_quietly(file, b"in flight" * 50))
        await asyncio.sleep(scene.disk.rng.random() * 0.004)
        scene.process.crash()
        scene.disk.lose_power()
        other = scene.store(process=scene.loop.process("s2"))
        length = await other.recover("t/0", deadline_s=5)
        content = await other.read("t/0", position=0, bytes_max=10_000)
        assert content.startswith(b"kept")
        assert len(content) == length

    play(scenario, seed)


async def _commit_quietly(file: FaultyAppendFile, data: bytes) -> None:
    try:
        await file.commit([data])
    except OutcomeUnknown:
        return


def test_the_first_flushed_commit_survives_a_power_loss_and_the_next_only_a_process_crash() -> None:
    lengths: set[int] = set()

    async def scenario(scene: Scene) -> None:
        file = await written(scene.store(), Durability.FLUSHED)
        await file.commit([b"flushed"])
        scene.process.crash()
        scene.disk.lose_process(scene.process)
        assert scene.disk.files["t/0"].content == b"keptflushed"
        scene.disk.lose_power()
        assert scene.disk.files["t/0"].content.startswith(b"kept")
        lengths.add(len(scene.disk.files["t/0"].content))

    for seed in SEEDS:
        play(scenario, seed)
    assert min(lengths) == len(b"kept")


def test_a_crash_tears_a_tail_in_many_ways() -> None:
    tail = bytes(range(1, 256)) * 3
    left = [damaged_tail(tail, 40, random.Random(seed)) for seed in range(200)]
    assert b"" in left
    assert tail in left
    assert any(0 < len(part) < len(tail) and tail.startswith(part) for part in left)
    assert any(not tail.startswith(part) for part in left)


def test_a_file_turns_thin_and_a_new_one_is_not() -> None:
    async def scenario(scene: Scene) -> None:
        store = scene.store(FileFaults(thin=1))
        file = await store.create("t/0", durability=Durability.SYNCED)
        seen = [file.thin]
        await file.commit([b"kept"])
        seen.append(file.thin)
        scene.disk.healed = True
        await file.commit([b"more"])
        seen.append(file.thin)
        assert seen == [False, True, True]
        assert not (await store.create("t/1", durability=Durability.SYNCED)).thin

    play(scenario)


def test_a_sync_that_lies_shows_bytes_that_a_power_loss_takes() -> None:
    lost = shown = 0

    async def scenario(scene: Scene) -> None:
        nonlocal lost, shown
        store = scene.store(FileFaults(commit_fails=1, sync_lies=1))
        file = await store.create("t/0", durability=Durability.SYNCED)
        with pytest.raises(OutcomeUnknown):
            await file.commit([b"shown"])
        with pytest.raises(WriterDead):
            await file.commit([b"more"])
        await store.recover("t/0", deadline_s=5)
        if await store.read("t/0", position=0, bytes_max=9) == b"shown":
            shown += 1
            scene.disk.lose_power()
            lost += scene.disk.files["t/0"].content != b"shown"

    for seed in SEEDS:
        play(scenario, seed)
    assert shown > 0
    assert lost > 0


def test_recover_fences_the_writer_whatever_was_under_way() -> None:
    async def scenario(scene: Scene) -> None:
        file = await written(scene.store(), Durability.SYNCED)
        commit = asyncio.ensure_future(file.commit([b"late"]))
        other = scene.store(process=scene.loop.process("s2"))
        length = await other.recover("t/0", deadline_s=5)
        try:
            committed = await commit
        except Fenced:
            committed = 0
        assert committed <= length
        assert await other.recover("t/0", deadline_s=5) == length
        assert len(await other.read("t/0", position=0, bytes_max=99)) == length

    for seed in SEEDS:
        play(scenario, seed)


def test_a_stuck_recovery_says_so_at_its_deadline() -> None:
    async def scenario(scene: Scene) -> None:
        await written(scene.store(), Durability.SYNCED)
        began = scene.loop.time()
        with pytest.raises(RecoveryStuck):
            await scene.store(FileFaults(recover_stuck=1)).recover("t/0", deadline_s=5)
        assert scene.loop.time() - began >= 5

    play(scenario)


def test_a_refused_recovery_works_again_after_a_while() -> None:
    async def scenario(scene: Scene) -> None:
        faults = FileFaults(recover_refused=1, refuse_s=3)
        file = await written(scene.store(), Durability.SYNCED)
        began_s, refused = scene.loop.time(), 0
        while True:
            store = scene.store(faults, scene.loop.process(f"s{refused}"))  # in every process
            try:
                assert await store.recover("t/0", deadline_s=5) == len(b"kept")
                break
            except StoreUnavailable:
                refused += 1
                await asyncio.sleep(0.1)
        assert refused
        assert scene.loop.time() - began_s <= faults.refuse_s + 1
        for _ in range(9):
            await store.recover("t/0", deadline_s=5)  # and continues to
        with pytest.raises(Fenced):
            await file.commit([b"late"])

    play(scenario)


def test_a_refused_recovery_ends_with_the_faults() -> None:
    async def scenario(scene: Scene) -> None:
        await written(scene.store(), Durability.SYNCED)
        store = scene.store(FileFaults(recover_refused=1))
        with pytest.raises(StoreUnavailable):
            await store.recover("t/0", deadline_s=5)
        scene.disk.healed = True
        assert await store.recover("t/0", deadline_s=5) == len(b"kept")

    play(scenario)


def test_a_full_disk_refuses_and_takes_again_when_space_is_back() -> None:
    async def scenario(scene: Scene) -> None:
        store = scene.store()
        file = await written(store, Durability.SYNCED)
        scene.disk.capacity_bytes = scene.disk.used_bytes + 2
        assert await store.space() == 2
        with pytest.raises(StorageFull):
            await file.commit([b"too much"])
        with pytest.raises(StorageFull):
            await store.create("t/1", durability=Durability.SYNCED)
        scene.disk.capacity_bytes += 1000
        again = await store.create("t/1", durability=Durability.SYNCED)
        assert await again.commit([b"fits"]) == 4

    play(scenario)


def test_create_with_a_lost_answer_may_leave_the_file() -> None:
    left: set[bool] = set()

    async def scenario(scene: Scene) -> None:
        with pytest.raises(OutcomeUnknown):
            await scene.store(FileFaults(create_unknown=1)).create(
                "t/0", durability=Durability.SYNCED
            )
        left.add("t/0" in scene.disk.files)

    for seed in SEEDS:
        play(scenario, seed)
    assert left == {True, False}


def test_an_unknown_meta_write_is_applied_or_not() -> None:
    found: set[tuple[bool, bool]] = set()

    async def scenario(scene: Scene) -> None:
        meta = FaultyMetaStore(scene.disk, scene.process, MetaFaults(unknown=1))
        with pytest.raises(OutcomeUnknown):
            await meta.create("a/b", b"1")
        at_once = await meta.get("a/b") is not None
        await asyncio.sleep(10)
        found.add((at_once, await meta.get("a/b") is not None))

    for seed in SEEDS:
        play(scenario, seed)
    assert found == {(True, True), (False, False)}


def test_a_stale_watch_is_late_but_never_goes_back() -> None:
    async def scenario(scene: Scene) -> None:
        meta = FaultyMetaStore(scene.disk, scene.process, MetaFaults(watch_stale=0.7))
        seen: list[int] = []

        async def follow() -> None:
            async for state in meta.watch("a"):
                versions = [record.version for record in state.values()]
                seen.append(max(versions, default=0))

        scene.process.create_task(follow())
        version = await meta.create("a/b", b"0")
        for _ in range(20):
            version = await meta.replace("a/b", b"x", version)
        await asyncio.sleep(10)
        assert seen == sorted(seen)
        assert seen[-1] == 21
        assert len(seen) < 21

    play(scenario)


def test_an_unknown_row_write_is_settled_by_repeating_it() -> None:
    async def scenario(scene: Scene) -> None:
        rows = FaultyRowStore(scene.disk, scene.process, RowFaults(unknown=0.5, unknown_later=0.5))
        await rows.open_table("groups")
        mutation = RowMutation(key=b"k", expected=ABSENT, write_id=b"w", data={b"c": b"1"})
        for _ in range(50):
            try:
                assert await rows.mutate("groups", mutation) == 1
                break
            except OutcomeUnknown:
                continue
        await asyncio.sleep(10)
        (row,) = await rows.get("groups", [b"k"])
        assert row is not None
        assert row.version == 1

    for seed in SEEDS:
        play(scenario, seed)


def test_refusals_change_nothing() -> None:
    async def scenario(scene: Scene) -> None:
        meta = FaultyMetaStore(scene.disk, scene.process, MetaFaults(unavailable=1))
        rows = FaultyRowStore(scene.disk, scene.process, RowFaults(unavailable=1))
        files = scene.store(FileFaults(create_fails=1))
        for call in (
            meta.create("a", b""),
            rows.open_table("t"),
            files.create("f", durability=Durability.SYNCED),
        ):
            with pytest.raises(StoreUnavailable):
                await call
        assert not scene.disk.files
        assert not scene.disk.records.records
        assert not scene.disk.records.tables

    play(scenario)


def test_the_clock_follows_the_loop_with_skew_rate_and_jumps() -> None:
    async def scenario(scene: Scene) -> None:
        right = SimulatedClock(scene.loop, random.Random(1))
        fast = SimulatedClock(scene.loop, random.Random(1), skew_ms=50, rate=1.5)
        assert fast.wall_ms() - right.wall_ms() == 50
        before = right.wall_ms()
        await asyncio.sleep(10)
        assert right.wall_ms() - before == 10_000
        assert fast.wall_ms() - before == 15_050
        right.jump(-600_000)
        assert right.wall_ms() - before == -590_000
        assert right.token(8) == fast.token(8)

    play(scenario)


def test_faults_are_probabilities_and_repeat_with_their_seed() -> None:
    with pytest.raises(ValueError, match="commit_fails"):
        FileFaults(commit_fails=1.5)
    for kind in (FileFaults, MetaFaults, RowFaults, WorldFaults):
        assert kind.draw(random.Random(3)) == kind.draw(random.Random(3))
    assert len({FileFaults.draw(random.Random(seed)) for seed in SEEDS}) > 10
