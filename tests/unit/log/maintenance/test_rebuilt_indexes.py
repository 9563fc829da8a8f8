"""A side index that is missing is rebuilt once, not at each read that misses the cache."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.unit.log.bed import Bed, open_bed, payloads, put
from tests.unit.log.faults import FaultyFiles, FaultyMeta, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.maintenance import rebuilt_indexes
from opentalos.log.manifest.manifest import Manifest
from opentalos.model.limits import LogLimits

LIMITS = LogLimits(
    segment_bytes_max=1_024,
    index_interval_bytes=512,
    space_reserve_bytes=0,
    tail_cache_bytes_max=0,
    retention_interval_s=1e6,
)


async def reopened(count: int = 30) -> tuple[Bed, Steps]:
    """A log of several sealed segments without side indexes, owned by the server."""
    bed = await open_bed(limits=LIMITS)
    for number in range(count):
        await put(bed.log(), b"%04d" % number * 50)
    await bed.store.close()
    for path in indexes(bed.storage):
        del bed.storage.files[path]
    steps = Steps()
    files, meta = FaultyFiles(bed.storage, steps), FaultyMeta(bed.storage, steps)
    again = await open_bed(bed.storage, limits=LIMITS, files=files, meta=meta)
    return again, steps


def indexes(storage: MemoryStorage) -> list[str]:
    return sorted(path for path in storage.files if path.endswith(".idx"))


def segments(storage: MemoryStorage) -> list[str]:
    return sorted(path for path in storage.files if path.endswith(".log"))


async def stored(bed: Bed) -> None:
    await bed.store._context.background.drain()


def forget_views(bed: Bed) -> None:
    for path in segments(bed.storage):
        bed.store._context.views.forget(path)


async def test_an_index_that_a_read_rebuilt_is_stored() -> None:
    bed, steps = await reopened()
    await put(bed.log(), b"ours now")
    former = [path.replace(".log", ".idx") for path in segments(bed.storage)[:-1]]
    for _ in range(len(former)):  # a few at once
        assert len(await payloads(bed.log())) == 31
        await stored(bed)
        forget_views(bed)
    assert set(former) <= set(indexes(bed.storage))
    reads: list[str] = []
    steps.script = lambda name, path, after: reads.append(path) if name == "read" else None
    log = bed.log()
    await bed.store._context.views.get(log.key, log.writer.versioned.manifest.sealed[0])
    assert reads == [former[0]]  # no segment is scanned again
    await bed.store.close()


async def test_so_many_indexes_are_stored_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilt_indexes, "STORES_AT_ONCE_MAX", 1)
    bed, _ = await reopened()
    await put(bed.log(), b"ours now")
    before = len(indexes(bed.storage))
    views, manifest = bed.store._context.views, bed.log().writer.versioned.manifest
    forget_views(bed)
    await asyncio.gather(*(views.get(bed.log().key, segment) for segment in manifest.sealed[:4]))
    await stored(bed)
    assert len(indexes(bed.storage)) == before + 1
    await bed.store.close()


async def test_only_the_owner_stores_a_rebuilt_index() -> None:
    bed, _ = await reopened()
    assert len(await payloads(bed.log())) == 30  # read only: another server may own it
    await stored(bed)
    assert indexes(bed.storage) == []
    await bed.store.close()


async def test_the_index_of_a_damaged_segment_is_not_stored() -> None:
    bed, _ = await reopened()
    await put(bed.log(), b"ours now")
    segment = bed.log().writer.versioned.manifest.sealed[0]
    path = segment.path(bed.log().key)
    content = bytearray(bed.storage.files[path].content)
    content[300] ^= 1
    bed.storage.files[path].content[:] = content
    await bed.store._context.views.get(bed.log().key, segment)
    await stored(bed)
    assert path.replace(".log", ".idx") not in indexes(bed.storage)
    await bed.store.close()


async def stored_while(change: Callable[[Manifest], Manifest], which: int) -> tuple[Bed, str]:
    """The path of the index of sealed segment ``which``, during whose storing the manifest
    changed once.
    """
    bed, steps = await reopened()
    await put(bed.log(), b"ours now")
    writer = bed.log().writer
    segment = writer.versioned.manifest.sealed[which]
    path = segment.path(bed.log().key).replace(".log", ".idx")
    bed.storage.files.pop(path, None)
    forget_views(bed)
    seen = 0

    def meanwhile(name: str, at: str, after: bool) -> None:
        nonlocal seen
        if (name, at, after) == ("create", path, True):
            seen += 1
            versioned = writer.versioned
            writer.manifest_replaced(versioned._replace(manifest=change(versioned.manifest)))

    steps.script = meanwhile
    await bed.store._context.views.get(bed.log().key, segment)
    await stored(bed)
    steps.script = None
    assert seen == 1
    return bed, path


async def test_the_index_of_a_dropped_segment_is_not_left_behind() -> None:
    bed, path = await stored_while(lambda manifest: manifest.dropped(1), which=0)
    assert bed.store._context.pending_deletions[path] == 0.0
    await bed.store.close()


async def test_the_index_with_the_state_stays_when_its_segment_is_dropped_meanwhile() -> None:
    def all_dropped(manifest: Manifest) -> Manifest:
        return replace(manifest, segments=(), state_of=manifest.sealed[-1].name)

    bed, path = await stored_while(all_dropped, which=-1)
    assert path not in bed.store._context.pending_deletions
    await bed.store.close()


async def test_the_index_stays_when_the_log_is_another_servers_meanwhile() -> None:
    def theirs(manifest: Manifest) -> Manifest:
        return manifest.next_epoch("other", "other").dropped(1)

    bed, path = await stored_while(theirs, which=0)
    assert path not in bed.store._context.pending_deletions
    await bed.store.close()
