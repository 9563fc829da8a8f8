"""The scrub: every block of sealed segments is verified, at a rate, oldest first, own ones only."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.unit.log.bed import LIMITS, TOPIC, Bed, crash, open_bed, put, until

from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.log.maintenance import scrub
from opentalos.log.maintenance.scrub import Scrub
from opentalos.model.errors import PartitionNotServing, StoreUnavailable
from opentalos.model.message import PartitionKey

SMALL = replace(LIMITS, segment_bytes_max=1_024, index_interval_bytes=512)


async def written(limits: object = SMALL) -> Bed:
    """Two partitions with several sealed segments each, and a server that has just started."""
    bed = await open_bed(limits=SMALL)
    for number in range(24):
        await put(bed.log(number % 2), b"%04d" % number * 60)
    await bed.store.close()
    again = await open_bed(bed.storage, limits=limits)  # type: ignore[arg-type]
    for number in range(2):
        await again.log(number).offsets()
    return again


def segments(storage: MemoryStorage) -> Sequence[str]:
    return sorted(path for path in storage.files if path.endswith(".log"))


async def test_a_pass_reads_every_sealed_segment_once() -> None:
    bed = await written()
    await bed.store.scrub.run_pass()
    counters, paths = bed.store.counters, segments(bed.storage)
    assert counters.scrubbed_segments == len(paths) > 6
    assert counters.scrubbed_bytes >= sum(len(bed.storage.files[path].content) for path in paths)
    assert (counters.scrub_passes, counters.corrupt) == (1, 0)
    assert bed.store.figures.damaged_segments == 0
    await crash(bed)


@pytest.mark.parametrize("at", [3, 40, 130, 400, -1])
async def test_rot_is_reported_before_a_reader_meets_it(
    at: int, caplog: pytest.LogCaptureFixture
) -> None:
    bed = await written()
    path = segments(bed.storage)[2]
    bed.storage.files[path].content[at] ^= 1
    await bed.store.scrub.run_pass()
    assert bed.store.figures.damaged_segments == 1
    assert bed.store.counters.corrupt == 1
    (line,) = [each for each in caplog.messages if each.startswith("scrub: ")]
    assert path in line
    assert "position" in line
    await bed.store.scrub.run_pass()
    assert bed.store.counters.corrupt == 1  # a further pass reports nothing new
    bed.storage.files[path].content[at] ^= 1  # restored
    await bed.store.scrub.run_pass()
    assert bed.store.figures.damaged_segments == 0
    await crash(bed)


async def test_a_damaged_segment_that_is_gone_is_forgotten() -> None:
    bed = await written()
    bed.storage.files[segments(bed.storage)[0]].content[130] ^= 1
    await bed.store.scrub.run_pass()
    assert bed.store.figures.damaged_segments == 1
    await bed.store.delete_topic(TOPIC.topic_uuid, 2)
    await bed.store.scrub.run_pass()
    assert bed.store.figures.damaged_segments == 0
    await crash(bed)


async def test_a_missing_or_short_segment_is_reported() -> None:
    bed = await written()
    first, second = segments(bed.storage)[:2]
    del bed.storage.files[first]
    del bed.storage.files[second].content[-10:]
    await bed.store.scrub.run_pass()
    assert list(bed.store.scrub.damaged) == [first, second]
    await crash(bed)


class ReadFiles(MemoryFileStore):
    """Remembers which segments were read, in order."""

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__(storage)
        self.paths: list[str] = []

    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes:
        if path.endswith(".log") and path not in self.paths[-1:]:
            self.paths.append(path)
        return await super().read(path, position=position, bytes_max=bytes_max)


async def test_a_restart_continues_behind_what_was_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scrub, "SAVE_EVERY_S", 0.0)
    bed = await written(replace(SMALL, scrub_bytes_per_s=2_000, scrub_interval_s=0.1))
    await until(lambda: bed.store.counters.scrubbed_segments == 3)
    await bed.store.scrub.close()
    await crash(bed)
    files = ReadFiles(bed.storage)
    again = await open_bed(bed.storage, limits=SMALL, files=files)
    for number in range(2):
        await again.log(number).offsets()
    files.paths.clear()
    await again.store.scrub.run_pass()
    assert files.paths == segments(bed.storage)[3:]
    files.paths.clear()
    await again.store.scrub.run_pass()
    assert files.paths == segments(bed.storage)
    await crash(again)


async def test_it_reads_at_its_rate_and_not_at_all_at_rate_0() -> None:
    bed = await written(replace(SMALL, scrub_bytes_per_s=1_000, scrub_interval_s=1.0))
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    await until(lambda: bed.store.counters.scrub_passes == 1)
    took_s = loop.time() - began_s
    assert bed.store.counters.scrubbed_bytes / 1_000 <= took_s + 0.1
    await bed.store.close()
    off = await open_bed(bed.storage, limits=replace(SMALL, scrub_bytes_per_s=0))
    await asyncio.sleep(200)
    assert off.store.counters.scrubbed_bytes == 0
    await off.store.close()


async def test_only_partitions_of_this_server_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = await written()
    guard = bed.store._context.guard

    def refusal(key: PartitionKey) -> PartitionNotServing | None:
        return PartitionNotServing("another's") if key.partition == 0 else None

    monkeypatch.setattr(type(guard), "refusal", lambda _, key: refusal(key))
    files = ReadFiles(bed.storage)
    bed.store._context.files = files
    await bed.store.scrub.run_pass()
    assert files.paths == [path for path in segments(bed.storage) if "/1/" in path]
    await crash(bed)


async def test_it_waits_while_partitions_wait_for_a_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    bed = await written()
    lanes = bed.store._context.lanes
    monkeypatch.setattr(lanes, "depth", lambda: lanes.count() + 1)
    running = asyncio.create_task(bed.store.scrub.run_pass())
    await asyncio.sleep(scrub.BUSY_CHECKS_MAX * scrub.BUSY_CHECK_S * 0.9)
    assert bed.store.counters.scrubbed_bytes == 0
    monkeypatch.setattr(lanes, "depth", lambda: 0)
    await running
    assert bed.store.counters.scrub_passes == 1
    await crash(bed)


async def test_a_store_that_did_not_answer_once_is_asked_again_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bed = await written(replace(SMALL, scrub_interval_s=86_400.0))
    real = MemoryFileStore.read
    failures = [StoreUnavailable("away")]

    async def read(self: MemoryFileStore, path: str, **place: int) -> bytes:
        if failures:
            raise failures.pop()
        return await real(self, path, **place)

    monkeypatch.setattr(MemoryFileStore, "read", read)
    await asyncio.sleep(scrub.START_AFTER_S + 2 * scrub.AGAIN_S)
    assert bed.store.counters.scrub_passes == 1
    await crash(bed)


async def test_a_record_of_another_version_begins_a_new_pass() -> None:
    bed = await written()
    await bed.meta.create("scrub/s1", b'{"version": 2}')
    await bed.store.scrub.run_pass()
    assert bed.store.counters.scrubbed_segments == len(segments(bed.storage))
    assert isinstance(bed.store.scrub, Scrub)
    await crash(bed)
