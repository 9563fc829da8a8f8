"""The end of a log with damaged files: nothing behind it is dropped without a word or a copy."""

import random
from copy import deepcopy
from dataclasses import replace
from functools import partial

import pytest
from tests.unit.log import bed as bed_module
from tests.unit.log.bed import Bed, crash, open_bed, put
from tests.unit.log.manifest.test_accepted_loss import (
    found,
    headless,
    long_log,
    payload,
    refusal,
    repaired,
    store_manifest,
    stored_manifest,
)
from tests.unit.log.manifest.test_leftovers import KEY, PLAIN, rolled

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.manifest.aside import ROOT as ASIDE
from opentalos.log.partition.jobs import open_now
from opentalos.log.segment.format import SEGMENT_HEADER_BYTES, index_path
from opentalos.model.errors import CorruptLog
from opentalos.model.message import Durability


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loss of power may take what was not synced, so less is a proof."""
    topic = replace(bed_module.TOPIC, durability=Durability.FLUSHED)
    monkeypatch.setattr(bed_module, "TOPIC", topic)


async def filled(*, numbers: range, storage: MemoryStorage | None = None) -> Bed:
    bed = await open_bed(storage, limits=PLAIN)
    for number in numbers:
        await put(bed.log(), payload(number))
    return bed


def flip(storage: MemoryStorage, path: str, position: int) -> None:
    storage.files[path].content[position] ^= 1


async def used(storage: MemoryStorage, end: int) -> None:
    """A put gets the offset ``end``, and what the log needs no more is deleted."""
    bed = await open_bed(storage, limits=PLAIN)
    assert await put(bed.log(), payload(30)) == end
    for _ in range(2):
        await bed.store._context.background.drain()
        await bed.store.upkeep.run_pass()
    await bed.store.close()


async def test_what_lies_behind_a_flipped_bit_is_set_aside() -> None:
    bed = await filled(numbers=range(8))
    await crash(bed)
    path = stored_manifest(bed.storage).segments[-1].path(KEY)
    flip(bed.storage, path, bed.storage.files[path].content.index(payload(1)))
    plan = await repaired(bed.storage)
    assert (plan.end, plan.left_out) == (1, [path])
    assert plan.lost
    await used(bed.storage, 1)
    assert path not in bed.storage.files
    assert found(bed.storage, journals=True) == {0, *range(2, 8), 30}


@pytest.mark.usefixtures("flushed")
@pytest.mark.parametrize("last", ["only", "sealed"])
async def test_a_flushed_segment_without_its_first_block_is_set_aside(last: str) -> None:
    bed = await filled(numbers=range(4))
    end = 0
    if last == "sealed":
        await rolled(bed)
        for number in range(4, 8):
            await put(bed.log(), payload(number))
        await bed.store.close()
        end = 4
    else:
        await crash(bed)
    path = stored_manifest(bed.storage).segments[-1].path(KEY)
    flip(bed.storage, path, SEGMENT_HEADER_BYTES + 100)
    left = found(bed.storage, journals=True)
    await repaired(bed.storage)
    await used(bed.storage, end if last == "sealed" else 0)
    assert found(bed.storage, journals=True) == {*left, 30}


@pytest.mark.usefixtures("flushed")
async def test_a_flushed_segment_without_its_first_block_is_not_left_out_unasked() -> None:
    bed = await filled(numbers=range(4))
    older = deepcopy(bed.storage.records)
    await rolled(bed)
    for number in range(4, 8):
        await put(bed.log(), payload(number))
    await bed.store.close()
    path = stored_manifest(bed.storage).segments[-1].path(KEY)
    flip(bed.storage, path, SEGMENT_HEADER_BYTES + 100)
    bed.storage.records.clear()
    bed.storage.records.update(older)
    assert f"{path} is damaged at its start" in await refusal(bed.storage)


@pytest.mark.parametrize("manifest", ["older", "gone"])
async def test_a_newer_segment_begins_with_the_last_group_of_the_one_before(manifest: str) -> None:
    bed = await filled(numbers=range(3))
    older = deepcopy(bed.storage.records)
    await crash(bed)
    again = await filled(numbers=range(3, 8), storage=bed.storage)
    await crash(again)
    path = stored_manifest(bed.storage).segments[-1].path(KEY)
    headless(bed.storage, path, random.Random(1))
    bed.storage.records.clear()
    if manifest == "older":
        bed.storage.records.update(older)
    assert f"{path} is damaged at its start" in await refusal(bed.storage)


async def test_a_side_index_alone_says_where_a_log_ended() -> None:
    storage, before = await long_log()
    for segment in before.segments:
        del storage.files[segment.path(KEY)]
    for segment in before.segments[:-1]:
        storage.files.pop(index_path(segment.path(KEY)), None)
    store_manifest(storage, b"{}")
    assert "an empty log at 8" in await refusal(storage)
    await repaired(storage)
    await used(storage, 8)


async def test_an_empty_segment_behind_a_damaged_one_stays_the_last() -> None:
    bed = await filled(numbers=range(8))
    await bed.store.close()
    again = await open_bed(bed.storage, limits=PLAIN)
    writer = again.log().writer
    await again.log().offsets()
    await writer.run(partial(open_now, writer))
    await crash(again)
    before = stored_manifest(bed.storage)
    path = before.segments[0].path(KEY)
    flip(bed.storage, path, bed.storage.files[path].content.index(payload(1)))
    plan = await repaired(bed.storage)
    assert [each.base_offset for each in plan.after.segments] == [0, 8]
    assert plan.end == 8
    await used(bed.storage, 8)
    assert path in bed.storage.files


async def test_what_is_damaged_after_a_loss_was_accepted_is_refused() -> None:
    storage, before = await long_log()
    del storage.files[before.segments[-1].path(KEY)]
    assert (await repaired(storage)).end == 6
    path = before.segments[-2].path(KEY)
    flip(storage, path, storage.files[path].content.index(payload(4)))
    bed = await open_bed(storage, limits=PLAIN)
    with pytest.raises(CorruptLog, match="position"):
        await put(bed.log(), payload(30))
    await bed.store.close()
    assert not [each for each in storage.files if each.startswith(ASIDE)]
