"""The end of a sealed log is not shown before it is proven, whichever path comes first."""

import asyncio
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.log.bed import (
    LIMITS,
    TOPIC,
    Bed,
    crash,
    log_records,
    open_bed,
    payloads,
    put,
    until,
)

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.manifest import end_proof
from opentalos.log.manifest.leftovers import Leftovers
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.partition.jobs import claim, open_now
from opentalos.log.partition.state import State
from opentalos.model.errors import CorruptLog, NewerFormat, StoreUnavailable, TalosError
from opentalos.model.message import OffsetRange, PartitionKey

KEY = PartitionKey(TOPIC.topic_uuid, 0)
PLAIN = replace(LIMITS, end_mark_ms=0)  # so that no witness but the epoch is left


async def older_by_an_epoch() -> MemoryStorage:
    """The manifest does not know the last segment, whose only group has no witness."""
    bed = await open_bed(limits=PLAIN)
    await put(bed.log(), b"a")
    await bed.store.close()
    (record,) = log_records(bed.storage)
    older = deepcopy(bed.storage.records[record])
    bed = await open_bed(bed.storage, limits=PLAIN)
    await put(bed.log(), b"b")
    await crash(bed)
    bed.storage.records[record] = older
    return bed.storage


async def adopted(storage: MemoryStorage) -> Bed:
    """As after a takeover: the manifest of a sealed log is known, nobody has read or written."""
    bed = await open_bed(storage, limits=PLAIN)
    writer = bed.log().writer
    writer.adopt(await writer.context.manifests.load(KEY))
    return bed


async def read(bed: Bed, offset: int) -> list[bytes]:
    found = await bed.log().read(offset, messages_max=10, bytes_max=1_000)
    return [bytes(block.payload) for block in found.blocks]


async def test_a_claim_does_not_raise_the_epoch_of_a_manifest_that_is_older() -> None:
    storage = await older_by_an_epoch()
    before = set(storage.files)
    bed = await adopted(storage)
    writer = bed.log().writer
    await writer.run(lambda: claim(writer))
    assert (await writer.context.manifests.load(KEY)).manifest.epoch == 1
    assert await read(bed, 0) == [b"a"]
    for _ in range(2):
        with pytest.raises(CorruptLog, match="is of epoch 2, the manifest only of 1"):
            await read(bed, 1)
        with pytest.raises(CorruptLog, match="is of epoch 2, the manifest only of 1"):
            await put(bed.log(), b"given twice")
    assert set(storage.files) >= before
    assert bed.store.figures.damaged_partitions == 1
    await crash(bed)


async def test_what_a_newer_version_wrote_is_kept_as_damage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bed = await open_bed(limits=PLAIN)
    await put(bed.log(), b"a")
    await bed.store.close()
    proofs: list[Any] = []

    async def newer(*given: Any) -> None:
        proofs.append(given)
        raise NewerFormat("segment version 9")

    monkeypatch.setattr(end_proof, "check_last_segment", newer)
    again = await open_bed(bed.storage, limits=PLAIN)
    log = again.log()
    for _ in range(2):
        with pytest.raises(NewerFormat, match="segment version 9"):
            await log.offsets()
        with pytest.raises(NewerFormat, match="segment version 9"):
            await read(again, 1)
        assert await log.proven() == OffsetRange(0, 1)
        assert await read(again, 0) == [b"a"]
    assert len(proofs) == 1
    await crash(again)


@pytest.mark.parametrize("state", [State.REOPENING, State.MUST_REOPEN])
async def test_an_opening_that_has_not_judged_yet_shows_no_end(
    monkeypatch: pytest.MonkeyPatch, state: State
) -> None:
    storage = await older_by_an_epoch()
    (record,) = log_records(storage)
    stored = storage.records[record]
    manifest = replace(Manifest.decode(stored.record.value), epoch=5)  # so epochs prove nothing
    stored.record = replace(stored.record, value=manifest.encode())
    real, may_judge = Leftovers.judge, asyncio.Event()

    async def judged(self: Leftovers, *args: Any, **more: Any) -> None:
        if state is State.REOPENING:
            await may_judge.wait()
        elif not may_judge.is_set():
            raise StoreUnavailable("away")
        await real(self, *args, **more)

    monkeypatch.setattr(Leftovers, "judge", judged)
    bed = await adopted(storage)
    writer = bed.log().writer
    opening = asyncio.create_task(writer.run(lambda: open_now(writer)))
    await until(lambda: writer.state is state)
    reading = asyncio.create_task(read(bed, 1))
    await asyncio.wait([reading], timeout=0.5)
    assert not reading.done() or isinstance(reading.exception(), TalosError)
    may_judge.set()
    await asyncio.gather(opening, reading, return_exceptions=True)
    assert await payloads(bed.log()) == [b"a"]  # what nothing proves is set aside
    await crash(bed)
