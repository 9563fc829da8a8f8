"""The ownership guard: what the log may open and roll while servers share the storage."""

import asyncio
from dataclasses import replace

import pytest
from tests.unit.log.bed import (
    LIMITS,
    TOPIC,
    Answers,
    Bed,
    FakeClock,
    block,
    crash,
    log_records,
    open_bed,
    payloads,
    put,
    until,
)
from tests.unit.log.faults import FaultyMeta, Steps

from opentalos.adapters.memory import MemoryFileStore, MemoryMetaStore, MemoryStorage
from opentalos.log.journal.upkeep import PASS_S, SEARCH_FIRST_S
from opentalos.log.log_store import LogStore
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.manifest.store import manifest_path
from opentalos.model.errors import (
    NotOwner,
    OutcomeUnknown,
    PartitionNotServing,
    StoreUnavailable,
    TalosError,
    TopicNotExist,
)
from opentalos.model.limits import LogLimits
from opentalos.model.message import PartitionKey

KEY = PartitionKey(TOPIC.topic_uuid, 0)
ELSEWHERE = NotOwner("served by s2", "s2:1")


class ScriptedGuard:
    """A guard whose answers a test sets."""

    instance = ""

    def __init__(self) -> None:
        self.refused: TalosError | None = None
        self.looks = 0  # before the former owner's segment may be recovered
        self.calm = self.sure = True
        self.topic_gone = False
        self.confirmed: list[str] = []

    def refusal(self, key: PartitionKey) -> TalosError | None:
        return self.refused

    def wait_s(self, key: PartitionKey, former: Manifest) -> float:
        self.looks -= 1
        return 0.001 if self.looks >= 0 else 0.0

    def steady(self) -> bool:
        return self.calm

    def certain(self) -> bool:
        return self.sure

    def living(self) -> frozenset[str]:
        return frozenset()

    async def confirm_owner(self, key: PartitionKey) -> None:
        self.confirmed.append("owner")

    async def confirm_topic(self, key: PartitionKey) -> None:
        self.confirmed.append("topic")
        if self.topic_gone:
            raise TopicNotExist("gone")


async def guarded_bed(
    guard: ScriptedGuard, storage: MemoryStorage | None = None, limits: LogLimits = LIMITS
) -> Bed:
    storage, clock = storage or MemoryStorage(), FakeClock()
    files, meta = MemoryFileStore(storage), MemoryMetaStore(storage)
    store = LogStore(files=files, meta=meta, clock=clock, server="s1", limits=limits, guard=guard)
    await store.start()
    return Bed(storage, files, meta, clock, store)


async def test_a_refused_partition_touches_no_manifest_and_puts_hear_why() -> None:
    guard = ScriptedGuard()
    guard.refused = ELSEWHERE
    bed = await guarded_bed(guard)
    with pytest.raises(NotOwner) as caught:
        await put(bed.log(), b"x")
    assert caught.value.address == "s2:1"
    assert not log_records(bed.storage)
    await bed.store.close()


async def test_a_partition_of_a_deleted_topic_leaves_no_manifest() -> None:
    guard = ScriptedGuard()
    guard.topic_gone = True
    bed = await guarded_bed(guard)
    with pytest.raises(TopicNotExist):
        await put(bed.log(), b"x")
    assert not log_records(bed.storage)
    assert not bed.storage.files
    await bed.store.close()


async def test_an_opening_waits_for_the_former_owner_to_seal() -> None:
    storage, guard = MemoryStorage(), ScriptedGuard()
    former = await guarded_bed(ScriptedGuard(), storage)
    assert await put(former.log(), b"1") == 0
    bed = await guarded_bed(guard, storage)
    guard.looks = 1_000_000
    answers = Answers()
    bed.log().append(block(b"2"), answers)
    await asyncio.sleep(0.02)
    assert not answers.got
    await former.store.hand_off(KEY, ELSEWHERE)
    await until(lambda: bool(answers.got))
    assert answers.bases == [1]
    assert "owner" in guard.confirmed
    await bed.store.close()


async def test_a_log_rolls_only_while_coordination_is_there_or_it_must() -> None:
    guard = ScriptedGuard()
    limits = LogLimits(
        space_reserve_bytes=0, segment_bytes_max=1 << 10, segment_bytes_hard_max=4 << 10
    )
    bed = await guarded_bed(guard, limits=limits)
    await put(bed.log(), b"x" * 1_100)
    guard.calm = False
    await put(bed.log(), b"x" * 1_100)
    await put(bed.log(), b"x" * 1_100)
    assert bed.store.counters.rolls == 0
    await put(bed.log(), b"x" * 1_100)
    await put(bed.log(), b"x")
    assert bed.store.counters.rolls == 1
    guard.calm = True
    await bed.store.close()


async def test_upkeep_stands_still_while_coordination_is_away() -> None:
    guard = ScriptedGuard()
    bed = await guarded_bed(guard, limits=LogLimits(space_reserve_bytes=0, idle_seal_s=0.0))
    await put(bed.log(), b"x")
    guard.calm = False
    await bed.store.upkeep.run_pass()
    await asyncio.sleep(0.01)
    assert bed.store.counters.seals == 0
    guard.calm, guard.refused = True, ELSEWHERE
    await bed.store.upkeep.run_pass()
    await asyncio.sleep(0.01)
    assert bed.store.counters.seals == 0
    guard.refused = None
    await bed.store.upkeep.run_pass()
    await until(lambda: bed.store.counters.seals == 1)
    await bed.store.close()


async def test_release_commits_what_waits_and_refuses_what_comes() -> None:
    bed = await guarded_bed(ScriptedGuard())
    log, answers = bed.log(), Answers()
    await put(log, b"0")
    for number in range(5):
        log.append(block(b"%d" % number), answers)
    releasing = asyncio.create_task(bed.store.hand_off(KEY, ELSEWHERE))
    await asyncio.sleep(0)
    with pytest.raises(NotOwner) as caught:
        log.append(block(b"late"), answers)
    assert caught.value.address == "s2:1"
    await releasing
    assert answers.bases == [1, 2, 3, 4, 5]
    other = await guarded_bed(ScriptedGuard(), bed.storage)
    assert len(await payloads(other.log())) == 6
    await other.store.close()


async def test_drop_reports_in_flight_unknown_and_queued_not_done_once() -> None:
    bed = await guarded_bed(ScriptedGuard())
    log, flying, queued = bed.log(), Answers(), Answers()
    await put(log, b"0")
    log.append(block(b"flying"), flying)
    await until(lambda: log.writer.group is not None, step_s=0)
    log.append(block(b"queued"), queued)
    bed.store.drop(KEY, PartitionNotServing("lapsed"))
    assert [type(error) for error in flying.errors] == [OutcomeUnknown]
    assert [type(error) for error in queued.errors] == [PartitionNotServing]
    await asyncio.sleep(0.01)
    assert len(flying.got) == len(queued.got) == 1
    assert bed.store._context.pending_bytes == 0
    assert not bed.store._context.open_partitions
    assert log.writer.abandoned is None  # closed once its last commit had returned
    await bed.store.close()


async def test_learning_recovers_what_is_unsealed_and_opens_nothing_else() -> None:
    storage = MemoryStorage()
    former = await guarded_bed(ScriptedGuard(), storage)
    for partition in range(4):
        await put(former.log(partition), b"x")
    for partition in range(2):
        await former.store.hand_off(PartitionKey(TOPIC.topic_uuid, partition), ELSEWHERE)
    bed = await guarded_bed(ScriptedGuard(), storage)
    bed.store.update_topic(TOPIC)
    bed.store.recover_soon(PartitionKey(TOPIC.topic_uuid, partition) for partition in range(4))
    logs = [bed.log(partition) for partition in range(4)]
    await until(lambda: all(log.writer.readable and not log.writer.foreign for log in logs))
    assert [log.writer.segment is not None for log in logs] == [False, False, True, True]
    assert [log.epoch for log in logs] == [2, 2, 2, 2]
    await bed.store.close()


async def test_what_is_not_known_of_each_partition_drops_none_and_loses_none() -> None:
    steps = Steps()
    bed = await guarded_bed(ScriptedGuard())
    bed.store._context.manifests.meta = FaultyMeta(bed.storage, steps)
    other = await guarded_bed(ScriptedGuard(), bed.storage)
    keys = [PartitionKey(TOPIC.topic_uuid, number) for number in range(3)]
    for key in keys:
        await put(bed.log(key.partition), b"x")
    for key in keys[:2]:
        await put(other.log(key.partition), b"y")

    def script(name: str, path: str, after: bool) -> None:
        if path == manifest_path(keys[1]):
            raise StoreUnavailable("no answer")

    steps.script = script
    gone = PartitionNotServing("taken")
    with pytest.raises(StoreUnavailable):
        await bed.store.drop_taken(gone)
    assert set(bed.store._partitions) == set(keys)
    steps.script = None
    assert await bed.store.drop_taken(gone) == keys[:2]
    assert set(bed.store._partitions) == {keys[2]}
    await other.store.close()
    await bed.store.close()


async def test_readers_at_the_end_share_the_commits_that_prove_it() -> None:
    guard = ScriptedGuard()
    bed = await guarded_bed(guard)
    log, loop = bed.log(), asyncio.get_running_loop()
    await put(log, b"x")
    guard.sure = False
    began_s, commits = loop.time(), bed.store.counters.commits
    polls = 0

    async def poll() -> None:
        nonlocal polls
        while loop.time() < began_s + 10:
            read = log.read(1, messages_max=1, bytes_max=1)
            assert not (await read).blocks
            polls += 1

    await asyncio.gather(*(poll() for _ in range(20)))
    assert polls >= 20 * 39
    assert bed.store.counters.commits - commits <= 42
    await bed.store.close()


async def test_a_commit_that_began_before_a_read_does_not_prove_its_end() -> None:
    guard = ScriptedGuard()
    bed = await guarded_bed(guard)
    log = bed.log()
    await put(log, b"x")
    guard.sure = False
    first = asyncio.create_task(log.read(1, messages_max=1, bytes_max=1))
    await until(lambda: log.writer.group is not None, step_s=0)
    late = asyncio.create_task(log.read(1, messages_max=1, bytes_max=1))
    await first
    assert not late.done()
    other = await guarded_bed(ScriptedGuard(), bed.storage)
    await put(other.log(), b"y")
    guard.refused = ELSEWHERE
    with pytest.raises(PartitionNotServing, match="another server may own it"):
        await late
    await other.store.close()
    await bed.store.close()


async def test_a_server_that_only_looks_on_ends_no_journal_that_proves_an_older_manifest() -> None:
    """The owner refuses the partition; so nobody has judged what the journal has of it."""
    limits = replace(LIMITS, journal="on", journal_files_open_max=6)
    bed = await open_bed(limits=limits)
    await put(bed.log(), b"acknowledged")
    await crash(bed)
    (path,) = log_records(bed.storage)
    stored = bed.storage.records[path].record
    older = replace(Manifest.decode(stored.value), epoch=0, segments=(), journal="", late=False)
    bed.storage.records[path].record = bed.storage.record(older.encode(), stored.version)
    guard = ScriptedGuard()
    guard.refused = ELSEWHERE
    again = await guarded_bed(guard, bed.storage, limits)
    await asyncio.sleep(SEARCH_FIRST_S + 5 * PASS_S)
    assert [each for each in bed.storage.files if each.endswith(".jnl")]
    assert not [each for each in bed.storage.files if each.startswith("aside/")]
    await again.store.close()
