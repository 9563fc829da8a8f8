"""``talos log verify``: every kind of damage is found and named; sound logs have no problem."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.log.bed import TOPIC, Bed, block, crash, open_bed, put, put_block

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.maintenance.verify import Finding, Kind, LogVerifier
from opentalos.log.manifest.manifest import Manifest
from opentalos.model.limits import LogLimits
from opentalos.model.message import PartitionKey, ProducerStamp

LIMITS = LogLimits(segment_bytes_max=1_024, index_interval_bytes=512, space_reserve_bytes=0)
LOG_PATH = f"log/{TOPIC.topic_uuid}/0"


async def findings(
    bed: Bed, *, names: Mapping[str, str] | None = None, repair: bool = False
) -> list[Finding]:
    verifier = LogVerifier(bed.files, bed.meta, names=names, repair=repair)
    segments: list[int] = []
    found: list[Finding] = []
    for key in await verifier.partitions():
        found += [item async for item in verifier.check(key, lambda: segments.append(1))]
    return found


async def problems(bed: Bed) -> list[str]:
    return [finding.text for finding in await findings(bed) if finding.problem]


async def written(*, clean: bool) -> Bed:
    """Two partitions with several segments and an idempotent producer."""
    bed = await open_bed(limits=LIMITS)
    for number in range(40):
        bed.clock.now_ms += 10
        await put(bed.log(number % 2), b"%04d" % number * 30, 1 + number % 3)
        await put_block(bed.log(1), block(b"p", producer=ProducerStamp(4, 1, number)))
    await (bed.store.close() if clean else crash(bed))
    storage = bed.storage
    for path in [path for path, file in storage.files.items() if not file.content]:
        assert not clean
        await bed.files.delete(path)  # made ahead of a roll that the crash prevented
    return await open_bed(storage, limits=LIMITS)


def files(storage: MemoryStorage, suffix: str, partition: int = 0) -> list[str]:
    start = f"{TOPIC.topic_uuid}/{partition}/"
    return sorted(p for p in storage.files if p.startswith(start) and p.endswith(suffix))


@pytest.mark.parametrize("clean", [True, False])
async def test_sound_logs_have_no_findings(clean: bool) -> None:
    bed = await written(clean=clean)
    assert await findings(bed) == []
    verifier = LogVerifier(bed.files, bed.meta)
    assert await verifier.partitions() == [PartitionKey(TOPIC.topic_uuid, n) for n in (0, 1)]
    assert await verifier.segments(PartitionKey(TOPIC.topic_uuid, 0)) > 2
    await crash(bed)


@pytest.mark.parametrize("clean", [True, False])
async def test_every_flipped_byte_of_a_sealed_segment_is_named(clean: bool) -> None:
    bed = await written(clean=clean)
    path = files(bed.storage, ".log")[0]
    content = bed.storage.files[path].content
    for at in range(0, len(content), 13):
        content[at] ^= 1
        texts = await problems(bed)
        content[at] ^= 1
        assert texts, at
        assert f"{TOPIC.topic_uuid} partition 0" in texts[0]
        assert path in texts[0]
        assert "position" in texts[0]
        assert "offset" in texts[0]
    assert await problems(bed) == []
    await crash(bed)


async def test_two_damaged_blocks_are_two_problems() -> None:
    bed = await written(clean=True)
    path = files(bed.storage, ".log")[0]
    content = bed.storage.files[path].content
    for payload in (b"0002" * 30, b"0006" * 30):
        content[content.index(payload)] ^= 1
    texts = await problems(bed)
    assert len(texts) == 2
    assert all("CRC" in text for text in texts)
    await crash(bed)


async def test_damage_below_the_committed_end_of_an_unsealed_segment_is_a_problem() -> None:
    bed = await written(clean=False)
    manifest = Manifest.decode(bed.storage.records[LOG_PATH].record.value)
    path = manifest.segments[-1].path(PartitionKey(TOPIC.topic_uuid, 0))
    file = bed.storage.files[path]
    file.content += b"torn" * 10
    noted = await findings(bed)
    assert [item.problem for item in noted] == [False]
    assert "torn tail" in noted[0].text
    content = file.content
    content += b"torn" * 30  # more than a header, and no page is missing
    assert len(await problems(bed)) == 1
    del content[-160:]
    content[300] ^= 1
    assert len(await problems(bed)) == 1
    await crash(bed)


async def test_files_and_records_that_do_not_match_are_named() -> None:
    bed = await written(clean=True)
    storage = bed.storage
    path = files(storage, ".log")[1]
    kept = storage.files.pop(path)
    assert any(path in text and "missing" in text for text in await problems(bed))
    storage.files[path] = kept
    index = files(storage, ".idx")[1]
    storage.files[index].content[-1] ^= 1
    await only_rebuildable(bed, index, "fails its check")
    storage.files[index].content[-1] ^= 1
    moved = storage.files.pop(index)
    await only_rebuildable(bed, index, "is missing")
    storage.files[index] = storage.files[files(storage, ".idx", 1)[1]]
    await only_rebuildable(bed, index, "side index is of")
    storage.files[index] = moved
    for name, problem in (("-1.log", False), ("-9.log", True)):
        orphan = f"{TOPIC.topic_uuid}/0/{77:020d}{name}"
        storage.files[orphan] = type(kept)(bytearray(b"x"))
        (finding,) = await findings(bed)
        assert finding.problem is problem
        assert orphan in finding.text
        del storage.files[orphan]
    await crash(bed)


async def only_rebuildable(bed: Bed, index: str, text: str) -> None:
    (finding,) = await findings(bed)
    assert (finding.kind, finding.file) == (Kind.REBUILDABLE, index)
    assert text in finding.text


@pytest.mark.parametrize("fault", ["missing", "short", "wrong", "another's"])
async def test_repair_rebuilds_side_indexes_and_nothing_else(fault: str) -> None:
    bed = await written(clean=True)
    storage = bed.storage
    index = files(storage, ".idx")[1]
    before = {path: bytes(file.content) for path, file in storage.files.items()}
    content = storage.files[index].content
    if fault == "missing":
        del storage.files[index]
    elif fault == "short":
        del content[-9:]
    elif fault == "wrong":
        content[40] ^= 1
    else:
        content[:] = storage.files[files(storage, ".idx")[2]].content
    assert [each.kind for each in await findings(bed)] == [Kind.REBUILDABLE]
    repaired = await findings(bed, repair=True)
    assert [(each.kind, each.file) for each in repaired] == [(Kind.REPAIRED, index)]
    assert await findings(bed) == []
    after = {path: bytes(file.content) for path, file in storage.files.items()}
    assert after.keys() == before.keys()
    assert [path for path in after if after[path] != before[path] and path != index] == []
    log = bed.log()
    assert (await log.offsets()).next > 0
    await crash(bed)


async def test_a_side_index_of_a_damaged_segment_is_left_alone() -> None:
    bed = await written(clean=True)
    path = files(bed.storage, ".log")[1]
    bed.storage.files[path].content[-3] ^= 1
    index = files(bed.storage, ".idx")[1]
    del bed.storage.files[index]
    kinds = {each.kind for each in await findings(bed, repair=True)}
    assert kinds == {Kind.DAMAGE, Kind.REBUILDABLE}
    assert index not in bed.storage.files
    await crash(bed)


async def test_a_finding_has_its_place_and_the_name_of_the_topic() -> None:
    bed = await written(clean=True)
    path = files(bed.storage, ".log")[0]
    content = bed.storage.files[path].content
    content[content.index(b"0002" * 30)] ^= 1
    (found,) = await findings(bed, names={TOPIC.topic_uuid: "alice/clicks"})
    assert found.key == PartitionKey(TOPIC.topic_uuid, 0)
    assert found.text.startswith("topic alice/clicks partition 0: ")
    assert (found.kind, found.file, found.problem) == (Kind.DAMAGE, path, True)
    assert f"position {found.position} offset {found.offset}" in found.text
    await crash(bed)


async def test_rot_in_the_last_group_of_a_killed_server_is_damage() -> None:
    bed = await written(clean=False)
    manifest = Manifest.decode(bed.storage.records[LOG_PATH].record.value)
    path = manifest.segments[-1].path(PartitionKey(TOPIC.topic_uuid, 0))
    bed.storage.files[path].content[-1] ^= 1
    assert len(await problems(bed)) == 1
    await crash(bed)


async def test_a_manifest_that_lies_is_caught() -> None:
    bed = await written(clean=True)
    record = bed.storage.records[LOG_PATH]
    true = record.record
    changes: tuple[Callable[[dict[str, Any]], object], ...] = (
        lambda fields: fields["segments"][-1].__setitem__(2, fields["segments"][-1][2] + 1),
        lambda fields: fields["segments"][-1].__setitem__(3, fields["segments"][-1][3] - 10),
        lambda fields: fields["segments"][-1].__setitem__(4, 5),
        lambda fields: fields["segments"][-1].__setitem__(1, 7),
        lambda fields: fields["segments"].pop(1),
        lambda fields: fields.__setitem__("version", 99),
    )
    for change in changes:
        fields = json.loads(true.value)
        change(fields)
        record.record = replace(true, value=json.dumps(fields).encode())
        assert await problems(bed)
    record.record = replace(true, value=b"\xff")
    assert await problems(bed)
    assert Manifest.decode(true.value).epoch == 1
    record.record = true
    assert await problems(bed) == []
    await crash(bed)
