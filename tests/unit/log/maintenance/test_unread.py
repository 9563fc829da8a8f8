"""Partitions whose manifest is not known: what fails is tried again, nothing is left out."""

import asyncio
import logging
from copy import deepcopy
from dataclasses import replace

import pytest
from tests.unit.log.bed import (
    Answers,
    Bed,
    block,
    crash,
    log_records,
    open_bed,
    payloads,
    put,
    until,
)
from tests.unit.log.faults import FailOnce, FaultyFiles, FaultyMeta, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.maintenance import unread
from opentalos.log.partition.state import State
from opentalos.log.results import TopicLogSettings
from opentalos.model.errors import CorruptLog, StoreUnavailable
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability

LIMITS = LogLimits(
    segment_bytes_max=1_024,
    space_reserve_bytes=0,
    idle_seal_s=0.0,
    delete_grace_s=0.0,
    retention_interval_s=1e6,
    clock_disagree_max_s=1e9,
)
SHORT = TopicLogSettings("topic-uuid", Durability.SYNCED, 10.0)


async def run_pass(bed: Bed) -> None:
    """One pass of upkeep with all the jobs it started."""
    await bed.store.upkeep.run_pass()
    await until(lambda: not bed.store.upkeep._jobs)


async def earlier_run(partitions: int, *, sealed: bool) -> tuple[MemoryStorage, Bed]:
    """What a server with messages in so many partitions left."""
    bed = await open_bed(limits=LIMITS)
    for partition in range(partitions):
        await put(bed.log(partition), b"x" * 100)
    if sealed:
        await bed.store.close()
    else:
        await crash(bed)
    return bed.storage, bed


async def started(storage: MemoryStorage, former: Bed, steps: Steps) -> Bed:
    """The next run, days later: retention has something to drop in every partition."""
    former.clock.now_ms += 100_000
    bed = await open_bed(
        storage,
        limits=LIMITS,
        files=FaultyFiles(storage, steps),
        meta=FaultyMeta(storage, steps),
        clock=former.clock,
    )
    bed.store.update_topic(SHORT)
    return bed


def segment_files(storage: MemoryStorage) -> list[str]:
    return sorted(path for path in storage.files if path.endswith(".log"))


@pytest.mark.parametrize("sealed", [True, False])
async def test_a_partition_whose_manifest_could_not_be_read_once_is_not_forgotten(
    sealed: bool,
) -> None:
    storage, former = await earlier_run(3, sealed=sealed)
    steps = Steps()
    bed = await started(storage, former, steps)
    steps.script = FailOnce("get", StoreUnavailable("one moment"))
    for _ in range(6):
        await run_pass(bed)
    assert segment_files(storage) == []
    await bed.store.close()


async def test_a_partition_that_could_not_be_opened_by_a_put_is_not_forgotten() -> None:
    storage, former = await earlier_run(1, sealed=False)
    steps = Steps()
    bed = await started(storage, former, steps)
    answers = Answers()
    steps.script = FailOnce("recover", StoreUnavailable("away"), times=1_000)
    bed.store.partition(SHORT, 0).append(block(b"refused"), answers)
    await asyncio.sleep(0)
    await bed.store.upkeep.run_pass()  # the put is opening the partition
    await until(lambda: bool(answers.got), step_s=0.1)
    assert bed.store.partition(SHORT, 0).writer.state is State.UNOPENED
    steps.script = None
    await asyncio.sleep(60.0)  # a partition that failed rests for a while
    for _ in range(6):
        await run_pass(bed)
    assert segment_files(storage) == []
    await bed.store.close()


async def test_a_listing_that_fails_is_repeated() -> None:
    storage, former = await earlier_run(3, sealed=True)
    bed = await started(storage, former, Steps())
    meta = bed.store._context.manifests.meta
    assert isinstance(meta, FaultyMeta)
    children, calls = meta.inner.children, 0

    async def failing(path: str) -> list[str]:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise StoreUnavailable("away")
        return list(await children(path))

    meta.inner.children = failing  # type: ignore[method-assign]
    for _ in range(6):
        await run_pass(bed)
    assert segment_files(storage) == []
    await bed.store.close()


async def test_manifests_that_cannot_be_read_do_not_keep_the_others_waiting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unread, "LOAD_FAILURES_PER_PASS_MAX", 2)
    storage, former = await earlier_run(8, sealed=True)
    steps = Steps()
    bed = await started(storage, former, steps)

    def script(name: str, path: str, after: bool) -> None:
        if name == "get" and path.rsplit("/")[-1] in "0123":
            raise StoreUnavailable("this one is away")

    steps.script = script
    with caplog.at_level(logging.WARNING):
        for _ in range(8):
            await run_pass(bed)
    kept = {path.split("/")[1] for path in segment_files(storage)}
    assert kept == {"0", "1", "2", "3"}
    steps.script = None
    for _ in range(4):
        await run_pass(bed)
    assert segment_files(storage) == []
    await bed.store.close()


async def test_jobs_that_failed_to_open_do_not_count_against_a_later_put() -> None:
    """Eight passes failed; then one put failed once and was refused at once."""
    storage, former = await earlier_run(1, sealed=False)
    steps = Steps()
    bed = await started(storage, former, steps)
    steps.script = FailOnce("recover", StoreUnavailable("away"), times=7)
    for _ in range(7):
        await run_pass(bed)
    log = bed.store.partition(SHORT, 0)
    assert log.writer.state is State.UNOPENED
    steps.script = FailOnce("recover", StoreUnavailable("one moment"))
    assert await put(log, b"stored") == 1
    assert len(await payloads(log)) == 2
    await bed.store.close()


async def test_a_manifest_that_cannot_be_read_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage, former = await earlier_run(2, sealed=True)
    bad, _ = log_records(storage)
    storage.records[bad].record = replace(storage.records[bad].record, value=b"{")
    bed = await started(storage, former, Steps())
    for _ in range(4):
        await run_pass(bed)
    assert len([r for r in caplog.records if "not loaded" in r.getMessage()]) == 1
    assert len(segment_files(storage)) == 1  # the others are kept up as before
    await crash(bed)


async def test_a_log_that_cannot_be_opened_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage, former = await earlier_run(1, sealed=False)
    (record,) = log_records(storage)
    older = deepcopy(storage.records[record])
    bed = await started(storage, former, Steps())
    await put(bed.log(), b"y")
    await crash(bed)
    storage.records[record] = older
    again = await started(storage, former, Steps())
    await run_pass(again)
    assert again.log().writer.state is State.BROKEN
    assert "rolled back" in caplog.text
    caplog.clear()
    for _ in range(3):
        await run_pass(again)
    assert not caplog.records
    with pytest.raises(CorruptLog, match="rolled back"):
        await again.log().offsets()
    await crash(again)
