"""After a repair that accepts a loss the log is used again, and nothing that is left is deleted."""

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import pytest
from tests.unit.log.bed import Bed, FakeClock, crash, log_records, open_bed, payloads, put
from tests.unit.log.manifest.test_leftovers import KEY, LATE, PLAIN, rolled

from opentalos.adapters.memory import MemoryFileStore, MemoryMetaStore, MemoryStorage
from opentalos.adapters.memory.storage import StoredRecord
from opentalos.log.journal.format import ROOT as JOURNALS
from opentalos.log.maintenance.verify import LogVerifier
from opentalos.log.manifest.aside import DAY_MS, FILES_MAX, KEPT_DAYS, outdated
from opentalos.log.manifest.aside import ROOT as ASIDE
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.manifest.repair import ManifestRepair, Repair
from opentalos.log.metering.meter import Mark
from opentalos.log.segment.format import SEGMENT_HEADER_BYTES, SegmentHeader
from opentalos.model.errors import ConfigError, CorruptLog
from opentalos.model.limits import LogLimits
from opentalos.ports.meta_store import Record

FOLDER = f"{KEY.topic_uuid}/{KEY.partition}/"
Damage = Callable[[MemoryStorage, str, random.Random], None]


def payload(number: int) -> bytes:
    return b"<message %d>" % number


def deleted(storage: MemoryStorage, path: str, rng: random.Random) -> None:
    del storage.files[path]


def cut(storage: MemoryStorage, path: str, rng: random.Random) -> None:
    content = storage.files[path].content
    del content[rng.randrange(len(content) or 1) :]


def flipped(storage: MemoryStorage, path: str, rng: random.Random) -> None:
    content = storage.files[path].content
    if content:
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def headless(storage: MemoryStorage, path: str, rng: random.Random) -> None:
    storage.files[path].content[:20] = bytes(20)


def found(storage: MemoryStorage, *, journals: bool) -> set[int]:
    """Messages that are anywhere."""
    every = [
        bytes(file.content)
        for path, file in storage.files.items()
        if journals or not path.startswith(JOURNALS)
    ]
    return {number for number in range(40) if any(payload(number) in content for content in every)}


def stored_manifest(storage: MemoryStorage) -> Manifest:
    (record,) = log_records(storage)
    return Manifest.decode(storage.records[record].record.value)


def store_manifest(storage: MemoryStorage, value: bytes) -> None:
    (record,) = log_records(storage)
    storage.records[record].record = Record(value, storage.records[record].record.version)


async def refusal(storage: MemoryStorage) -> str:
    """Why there is no repair without a loss; empty: there is one."""
    bed = await open_bed(storage, limits=PLAIN)
    try:
        await ManifestRepair(bed.files, bed.meta).plan(KEY)
    except ConfigError as error:
        return str(error)
    finally:
        await crash(bed)
    return ""


async def repaired(storage: MemoryStorage) -> Repair:
    """Accepts a loss if there is one."""
    lossy = bool(await refusal(storage))
    bed = await open_bed(storage, limits=PLAIN)
    repair = ManifestRepair(bed.files, bed.meta)
    plan = await repair.plan(KEY, accept_loss=lossy)
    await repair.make(KEY, plan, bed.clock.now_ms)
    await crash(bed)
    return plan


async def verified(storage: MemoryStorage) -> list[str]:
    verifier = LogVerifier(MemoryFileStore(storage), MemoryMetaStore(storage))
    return [f"{line.kind.value} {line.text}" async for line in verifier.check(KEY, lambda: None)]


async def readable(bed: Bed, plan: Repair) -> int:
    """How many messages there are. Only what was damaged and is named as before is not."""
    start, end = await bed.log().offsets()
    named = plan.before.manifest.sealed
    for offset in range(start, end):
        try:
            blocks = (await bed.log().read(offset, messages_max=1, bytes_max=1 << 20)).blocks
        except CorruptLog:
            assert any(each.base_offset <= offset < (each.next_offset or 0) for each in named)
        else:
            assert bytes(blocks[0].payload) == payload(offset)
    return end - start


async def continued(storage: MemoryStorage, end: int) -> list[bytes]:
    """What the log has after a put, which gets the offset ``end``."""
    bed = await open_bed(storage, limits=PLAIN)
    assert await put(bed.log(), payload(end)) == end
    messages = await payloads(bed.log())
    await bed.store.close()
    return messages


async def long_log() -> tuple[MemoryStorage, Manifest]:
    """A closed log of four segments with two messages each."""
    bed = await open_bed(limits=PLAIN)
    for number in range(8):
        if number and number % 2 == 0:
            await rolled(bed)
        await put(bed.log(), payload(number))
    await bed.store.close()
    return bed.storage, stored_manifest(bed.storage)


@pytest.mark.parametrize("manifest", ["kept", "gone"])
async def test_what_lies_below_a_gap_is_set_aside_and_kept_for_a_week(manifest: str) -> None:
    storage, before = await long_log()
    below, gap = before.segments[0].path(KEY), before.segments[1].path(KEY)
    del storage.files[gap]
    content = bytes(storage.files[below].content)
    if manifest == "gone":
        storage.records.clear()
    assert (await repaired(storage)).left_out == [below]
    assert await continued(storage, 8) == [payload(number) for number in range(4, 9)]
    assert below not in storage.files
    (copy,) = [path for path in storage.files if path.startswith(f"{ASIDE}/")]
    assert bytes(storage.files[copy].content) == content
    assert [line for line in await verified(storage) if line.startswith("note")] == [
        f"note topic topic-uuid partition 0: {copy} is set aside: a repair has left it out of the "
        "log, which lacks what lies between"
    ]
    many = [copy.replace("-repair-", f"-repair-{number}") for number in range(FILES_MAX + 1)]
    now_ms = FakeClock().now_ms
    assert outdated(many, now_ms) == []
    assert outdated(many, now_ms + (KEPT_DAYS + 1) * DAY_MS) == many


async def test_a_last_segment_with_a_flipped_bit_ends_there_once_that_is_accepted() -> None:
    storage, before = await long_log()
    path = before.segments[-1].path(KEY)
    content = storage.files[path].content
    content[content.index(payload(7))] ^= 1
    assert f"{path} is damaged at position " in await refusal(storage)
    assert (await repaired(storage)).end == 7
    assert not [line for line in await verified(storage) if line.startswith("damage")]
    assert await continued(storage, 7) == [payload(number) for number in range(8)]
    assert await continued(storage, 8) == [payload(number) for number in range(9)]
    assert not [line for line in await verified(storage) if line.startswith("damage")]


async def test_damage_in_a_segment_that_the_manifest_names_costs_no_other() -> None:
    storage, before = await long_log()
    content = storage.files[before.segments[0].path(KEY)].content
    content[content.index(payload(1))] ^= 1
    headless(storage, before.segments[1].path(KEY), random.Random(1))
    older = replace(before, segments=before.segments[:3])
    store_manifest(storage, older.encode())
    assert await refusal(storage) == ""
    plan = await repaired(storage)
    assert plan.after.segments[:3] == older.segments
    bed = await open_bed(storage, limits=PLAIN)
    assert await put(bed.log(), payload(8)) == 8
    assert await readable(bed, plan) == 9
    assert await payloads(bed.log(), 4) == [payload(number) for number in range(4, 9)]
    await bed.store.close()


async def test_what_an_orphan_has_of_a_damaged_segment_is_set_aside() -> None:
    storage, before = await long_log()
    hurt = before.segments[1]
    orphan = hurt._replace(epoch=0)
    content = deepcopy(storage.files[hurt.path(KEY)])
    header = SegmentHeader.decode(bytes(content.content[:SEGMENT_HEADER_BYTES]))
    content.content[:SEGMENT_HEADER_BYTES] = header._replace(epoch=0).encode()
    del content.content[content.content.index(payload(3)) :]
    storage.files[orphan.path(KEY)] = content
    headless(storage, hurt.path(KEY), random.Random(1))
    del storage.files[hurt.path(KEY)].content[100:]
    plan = await repaired(storage)
    assert plan.after.segments[1] == hurt
    assert plan.left_out == [orphan.path(KEY)]


async def test_the_manifest_no_longer_says_that_there_was_more() -> None:
    storage, before = await long_log()
    del storage.files[before.segments[-1].path(KEY)]
    store_manifest(storage, replace(before, floor=7, metered=Mark(8, 0, 0)).encode())
    plan = await repaired(storage)
    assert (plan.after.floor, plan.after.metered) == (6, Mark(6, 0, 0))
    assert await continued(storage, 6) == [payload(6)]


@pytest.mark.parametrize("damaged", [deleted, headless])
async def test_a_log_of_which_nothing_is_whole_continues_behind_what_it_had(
    damaged: Damage,
) -> None:
    storage, before = await long_log()
    for segment in before.segments:
        damaged(storage, segment.path(KEY), random.Random(1))
    assert "--accept-loss continues with an empty log at 8" in await refusal(storage)
    left = found(storage, journals=True)
    await repaired(storage)
    assert await continued(storage, 8) == [payload(8)]
    assert found(storage, journals=True) == {*left, 8}


async def test_a_damaged_start_is_not_left_out_unless_that_is_accepted() -> None:
    """The manifest is gone, so only the file's name says that there was one."""
    storage, before = await long_log()
    path = before.segments[-1].path(KEY)
    headless(storage, path, random.Random(1))
    storage.records.clear()
    assert f"{path} is damaged at its start" in await refusal(storage)
    await repaired(storage)
    assert await continued(storage, 6) == [payload(number) for number in range(7)]
    assert found(storage, journals=True) == set(range(8))


async def test_an_older_manifest_is_refused_as_ever_after_a_loss_was_accepted() -> None:
    storage, before = await long_log()
    del storage.files[before.segments[-1].path(KEY)]
    await repaired(storage)
    older = deepcopy(storage.records)
    assert len(await continued(storage, 6)) == 7
    storage.records.clear()
    storage.records.update(older)
    bed = await open_bed(storage, limits=PLAIN)
    with pytest.raises(CorruptLog, match="rolled back"):
        await put(bed.log(), b"given twice")
    await bed.store.close()


async def random_log(
    rng: random.Random, limits: LogLimits
) -> tuple[MemoryStorage, list[StoredRecord]]:
    """Several segments, each of one or more groups, by one to three servers; and the manifests
    that it has had.
    """
    storage, number, manifests = MemoryStorage(), 0, list[StoredRecord]()
    for _ in range(rng.randrange(1, 4)):
        bed = await open_bed(storage, limits=limits)
        for _ in range(rng.randrange(1, 9)):
            await put(bed.log(), payload(number))
            number += 1
            if rng.random() < 0.4:
                await rolled(bed)
            manifests.append(deepcopy(storage.records[log_records(storage)[0]]))
        await (bed.store.close() if rng.random() < 0.5 else crash(bed))
    return storage, manifests


def damage(storage: MemoryStorage, manifests: list[StoredRecord], rng: random.Random) -> None:
    """Files of the partition or of journals, and the manifest."""
    for _ in range(rng.randrange(1, 4)):
        paths = [path for path in storage.files if path.startswith((FOLDER, f"{JOURNALS}/"))]
        if paths:
            one: Damage = rng.choice([deleted, cut, flipped, headless])
            one(storage, rng.choice(sorted(paths)), rng)
    (record,) = log_records(storage)
    manifest = rng.choice(["kept", "older", "gone", "damaged"])
    if manifest == "gone":
        del storage.records[record]
    elif manifest == "older":
        storage.records[record] = rng.choice(manifests)
    elif manifest == "damaged":
        store_manifest(storage, b"{}")


@pytest.mark.parametrize("limits", [PLAIN, LATE], ids=["files", "late"])
@pytest.mark.parametrize("seed", range(60))
async def test_whatever_was_damaged_the_log_is_used_again(limits: LogLimits, seed: int) -> None:
    rng = random.Random(seed)
    storage, manifests = await random_log(rng, limits)
    damage(storage, manifests, rng)
    before = found(storage, journals=False)
    if not log_records(storage) and not before:
        return  # there may be nothing to continue with
    plan = await repaired(storage)
    end = plan.end
    for _ in range(3):
        bed = await open_bed(storage, limits=limits)
        assert await put(bed.log(), payload(end)) == end
        assert await readable(bed, plan) == end + 1 - plan.after.first
        await (bed.store.close() if rng.random() < 0.5 else crash(bed))
        end += 1
        assert before <= found(storage, journals=True)
