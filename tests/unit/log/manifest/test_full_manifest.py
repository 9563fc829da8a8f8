"""A manifest at its bound refuses its own partition's puts and nobody else's."""

from functools import cache

import pytest
from tests.unit.log.bed import TOPIC, Bed, open_bed, put, until

from opentalos.adapters.memory.storage import StoredFile
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.manifest.store import ManifestStore, manifest_path
from opentalos.model.errors import ManifestFull
from opentalos.model.message import PartitionKey

FULL = PartitionKey(TOPIC.topic_uuid, 0)
_SEGMENT_BYTES, _LAST_MS = 1 << 27, 1_700_000_000_000


def _many(count: int) -> Manifest:
    rows = (Segment(n, 1, n + 1, _SEGMENT_BYTES, _LAST_MS) for n in range(count))
    return Manifest(epoch=1, owner="s1", instance="former", segments=tuple(rows))


@cache
def _largest() -> Manifest:
    low, high = 13_500, 14_000
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _many(middle).encode()
            low = middle
        except ManifestFull:
            high = middle
    return _many(low)


async def _bed_with_full_manifest() -> Bed:
    bed = await open_bed()
    await bed.meta.create(manifest_path(FULL), _largest().encode())
    return bed


async def test_a_full_manifest_refuses_its_partition_and_no_other() -> None:
    bed = await _bed_with_full_manifest()
    with pytest.raises(ManifestFull, match=r"partition 0: .* segments do not fit"):
        await put(bed.log(0), b"refused")
    assert bed.store.writable()
    assert await put(bed.log(1), b"of another tenant") == 0
    assert bed.store.counters.refused_full == 0
    assert bed.store.counters.refused_manifest_full == 1
    await bed.store.close()


async def test_a_refused_put_claims_no_epoch_and_makes_no_file() -> None:
    bed = await _bed_with_full_manifest()
    before = await ManifestStore(bed.meta, "reader").load(FULL)
    for _ in range(3):
        with pytest.raises(ManifestFull):
            await put(bed.log(0), b"refused")
    assert await ManifestStore(bed.meta, "reader").load(FULL) == before
    assert await bed.files.list(f"{FULL.topic_uuid}/0") == []
    await bed.store.close()


async def test_the_range_of_a_full_log_can_still_be_read() -> None:
    bed = await _bed_with_full_manifest()
    segments = _largest().segments
    for segment in segments:
        bed.storage.files[segment.path(FULL)] = StoredFile(bytearray())
    bed.storage.files[segments[-1].path(FULL)].content.extend(bytes(_SEGMENT_BYTES))
    with pytest.raises(ManifestFull):
        await put(bed.log(0), b"refused")
    await until(lambda: not bed.log(0).writer.busy())
    assert (await bed.log(0).offsets()).next == len(_largest().segments)
    await bed.store.close()
