"""A manifest that came back older than its files: refused, named, and nothing good is deleted."""

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
    proven_payloads,
    put,
    until,
)

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.log_store import use_positions
from opentalos.log.manifest import leftovers
from opentalos.log.manifest.aside import (
    DAY_MS,
    FILES_MAX,
    KEPT_DAYS,
    aside_path,
    outdated,
    set_aside,
)
from opentalos.log.manifest.aside import ROOT as ASIDE
from opentalos.log.manifest.leftovers import Found, Leftovers, Verdict, judge, split
from opentalos.log.manifest.manifest import Manifest, Segment
from opentalos.log.partition.jobs import claim, roll, seal
from opentalos.log.segment.format import index_path
from opentalos.model.errors import CorruptLog, StorageFull, StoreUnavailable, TalosError
from opentalos.model.limits import LogLimits
from opentalos.model.message import PartitionKey

KEY = PartitionKey(TOPIC.topic_uuid, 0)
PLAIN = replace(LIMITS, end_mark_ms=0)  # so that witnesses are those of rolls and seals
LATE = replace(LIMITS, journal="on", journals=1, journal_files_open_max=6)


async def rolled(bed: Bed) -> None:
    """Make the log continue in the next segment."""
    writer = bed.log().writer
    assert writer.segment is not None
    path = writer.segment.view.path
    writer.last_put_s = asyncio.get_running_loop().time()
    await writer.run(lambda: roll(writer, path))


def segments(storage: MemoryStorage) -> dict[str, bytes]:
    """Files that are or were segments."""
    return {
        path: bytes(file.content)
        for path, file in storage.files.items()
        if path.endswith(".log") and not path.startswith(f"{ASIDE}/")
    }


async def ask(bed: Bed, door: str, reached: int) -> None:
    """Use one of the doors of a log."""
    if door == "put":
        await put(bed.log(), b"given twice")
    elif door == "end":
        await bed.log().offsets()
    else:
        await bed.log().read(reached, messages_max=1, bytes_max=1 << 20)


async def refused(storage: MemoryStorage, limits: LogLimits, reached: int) -> None:
    """Every door says the same, whoever asks first, and all that was there is still there."""
    for first in ("put", "end", "read"):
        copy = deepcopy(storage)
        before = segments(copy)
        bed = await open_bed(copy, limits=limits)
        for door in (first, "end", "put"):
            with pytest.raises(CorruptLog, match=r"rolled back.*talos log repair"):
                await ask(bed, door, reached)
        await asyncio.sleep(30)  # whatever runs beside
        assert before.items() <= segments(copy).items()
        await bed.store.close()
        assert before.items() <= segments(copy).items()


@pytest.mark.parametrize("limits", [PLAIN, LATE], ids=["files", "late"])
@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("ends", ["closed", "crashed"])
async def test_segments_of_a_newer_manifest_are_no_orphans(
    limits: LogLimits, groups: int, ends: str
) -> None:
    """One segment, and then two more that the manifest does not know: of one group or several."""
    bed = await open_bed(limits=limits)
    for number in range(3):
        await put(bed.log(), b"%d" % number)
    (record,) = log_records(bed.storage)
    older = deepcopy(bed.storage.records[record])
    for number in range(2 * groups):
        if number % groups == 0:
            await rolled(bed)
        await put(bed.log(), b"%d" % (3 + number))
    reached = 3 + 2 * groups
    assert len(await payloads(bed.log())) == reached
    await (bed.store.close() if ends == "closed" else crash(bed))
    bed.storage.records[record] = older
    await refused(bed.storage, limits, 3)


async def test_a_refused_opening_does_not_wear_out_the_refusal() -> None:
    """Each claim raises the epoch; a manifest that is older by epochs must not catch up."""
    bed = await open_bed(limits=PLAIN)
    await put(bed.log(), b"a")
    await bed.store.close()
    (record,) = log_records(bed.storage)
    older = deepcopy(bed.storage.records[record])
    for _ in range(2):
        bed = await open_bed(bed.storage, limits=PLAIN)
        await put(bed.log(), b"b")
        await crash(bed)
    bed.storage.records[record] = older
    before = segments(bed.storage)
    for _ in range(5):
        bed = await open_bed(bed.storage, limits=PLAIN)
        with pytest.raises(CorruptLog, match="rolled back"):
            await put(bed.log(), b"given twice")
        await bed.store.close()
    assert segments(bed.storage) == before


async def older_by_a_segment() -> MemoryStorage:
    """A closed log whose manifest does not know its last segment."""
    bed = await open_bed(limits=PLAIN)
    for payload in (b"a", b"b"):
        await put(bed.log(), payload)
    await bed.log().writer.run(lambda: seal(bed.log().writer))
    (record,) = log_records(bed.storage)
    older = deepcopy(bed.storage.records[record])
    for payload in (b"c", b"d"):
        await put(bed.log(), payload)
    await bed.store.close()
    bed.storage.records[record] = older
    return bed.storage


async def test_a_claim_of_a_sealed_log_does_not_hide_that_its_manifest_is_older() -> None:
    """As after a takeover, before anybody uses the partition."""
    storage = await older_by_a_segment()
    before = segments(storage)
    bed = await open_bed(storage, limits=PLAIN)
    writer = bed.log().writer
    writer.adopt(await writer.context.manifests.load(KEY))
    await writer.run(lambda: claim(writer))
    for door in ("put", "end"):
        with pytest.raises(CorruptLog, match="rolled back"):
            await ask(bed, door, 2)
    await asyncio.sleep(30)
    assert before == segments(storage)
    await bed.store.close()


async def test_an_opening_that_could_not_judge_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The manifest is this process's own after the first attempt."""
    storage = await older_by_a_segment()
    before = segments(storage)
    real, failures = Leftovers.judge, [StoreUnavailable("away")]

    async def judged(self: Leftovers, *args: Any, **more: Any) -> None:
        if failures:
            raise failures.pop()
        await real(self, *args, **more)

    monkeypatch.setattr(Leftovers, "judge", judged)
    (record,) = log_records(storage)
    stored = storage.records[record]
    manifest = replace(Manifest.decode(stored.record.value), epoch=5)  # so epochs prove nothing
    stored.record = replace(stored.record, value=manifest.encode())
    bed = await open_bed(storage, limits=PLAIN)
    for _ in range(2):
        with pytest.raises(TalosError) as refusal:
            await ask(bed, "put", 2)
    assert not failures
    assert "rolled back" in str(refusal.value)
    await asyncio.sleep(30)
    assert before == segments(storage)
    await bed.store.close()


async def test_the_epoch_of_a_segment_that_only_a_journal_has_proves_an_older_manifest() -> None:
    """A late segment has no file; its only group would be set aside, and its offset given again."""
    bed = await open_bed(limits=LATE)
    await put(bed.log(), b"a")
    await bed.store.close()
    (record,) = log_records(bed.storage)
    older = deepcopy(bed.storage.records[record])
    bed = await open_bed(bed.storage, limits=LATE)
    await put(bed.log(), b"b")
    await crash(bed)
    bed.storage.records[record] = older
    for first in ("put", "end"):
        again = await open_bed(deepcopy(bed.storage), limits=LATE)
        with pytest.raises(CorruptLog, match=r"is of epoch 2, the manifest only of 1"):
            await ask(again, first, 1)
        await again.store.close()


async def test_readers_of_a_sealed_log_are_not_the_last_to_hear_of_what_is_unproven(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bed = await open_bed(limits=PLAIN)
    await put(bed.log(), b"a")
    await bed.store.close()
    (path,) = segments(bed.storage)
    left = path.replace("0000-1.log", "0001-1.log")
    other = await open_bed(limits=PLAIN)
    await put(other.log(), b"x")
    await put_roll_only(other)
    (made,) = [each for each in segments(other.storage) if "0001-" in each]
    bed.storage.files[left] = other.storage.files[made]
    await crash(other)
    again = await open_bed(bed.storage, limits=PLAIN)
    assert (await again.log().offsets()).next == 1
    assert [
        r for r in caplog.records if "log-unproven" in r.getMessage() and left in r.getMessage()
    ]
    assert left in bed.storage.files
    await again.store.close()


async def put_roll_only(bed: Bed) -> None:
    """A roll whose next segment has one group, without a witness of it."""
    await rolled(bed)
    await put(bed.log(), b"y")


async def test_what_only_a_roll_left_is_set_aside_and_the_log_continues() -> None:
    bed = await open_bed(limits=PLAIN)
    await put(bed.log(), b"a")
    (record,) = log_records(bed.storage)
    older = deepcopy(bed.storage.records[record])
    await rolled(bed)
    await put(bed.log(), b"b")
    (left,) = [path for path in segments(bed.storage) if "0000000001-" in path]
    content = segments(bed.storage)[left]
    await crash(bed)
    bed.storage.records[record] = older
    trusting = replace(PLAIN, clock_disagree_max_s=1e9)
    again = await open_bed(bed.storage, limits=trusting)
    assert await put(again.log(), b"c") == 1
    assert await payloads(again.log()) == [b"a", b"c"]
    assert again.store.counters.set_aside == 1
    (copy,) = [path for path in bed.storage.files if path.startswith(f"{ASIDE}/")]
    assert bytes(bed.storage.files[copy].content) == content
    await until(lambda: left not in bed.storage.files)
    again.clock.now_ms += (KEPT_DAYS + 2) * DAY_MS
    await again.store.upkeep.sweep_aside()
    assert copy not in bed.storage.files
    await again.store.close()


async def test_what_could_not_be_set_aside_is_not_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The disk is full at a start; the next attempt to open the log sets it aside."""
    bed = await open_bed(limits=PLAIN)
    await put(bed.log(), b"a")
    (record,) = log_records(bed.storage)
    older = deepcopy(bed.storage.records[record])
    await put_roll_only(bed)
    before = segments(bed.storage)
    await crash(bed)
    bed.storage.records[record] = older
    failures = [StorageFull("full"), StorageFull("full")]

    async def copied(*given: Any) -> None:
        if failures:
            raise failures.pop()
        await set_aside(*given)

    monkeypatch.setattr(leftovers, "set_aside", copied)
    again = await open_bed(bed.storage, limits=replace(PLAIN, clock_disagree_max_s=1e9))
    while failures:
        with pytest.raises(TalosError):
            await put(again.log(), b"c")
        assert before.items() <= segments(bed.storage).items()
    assert await put(again.log(), b"c") == 1
    (copy,) = [path for path in bed.storage.files if path.startswith(f"{ASIDE}/")]
    assert bytes(bed.storage.files[copy].content) in before.values()
    await again.store.close()


async def test_what_was_set_aside_is_kept_for_a_week_within_a_bound() -> None:
    now_ms = 20_000 * DAY_MS
    path = Segment(7, 3).path(KEY)
    old, new = aside_path(path, now_ms - (KEPT_DAYS + 1) * DAY_MS), aside_path(path, now_ms)
    assert outdated([new, old], now_ms) == [old]
    many = [aside_path(Segment(n, 3).path(KEY), now_ms) for n in range(FILES_MAX + 2)]
    assert len(outdated(many, now_ms)) == 2


def test_only_a_witness_refuses_and_only_messages_are_set_aside() -> None:
    path = "x"

    def verdict(base: int, committed: int, following: int, *, cut: bool = False) -> Verdict:
        return judge(Found(path, False, base, committed, following), 70, may_be_cut=cut)

    assert verdict(70, 75, 80) is Verdict.NEWER
    assert verdict(60, 65, 75) is Verdict.NEWER, "its last group has no witness of its own"
    assert verdict(71, 71, 71) is Verdict.NEWER, "it was made when the log was longer"
    assert verdict(71, 71, 75, cut=True) is Verdict.UNPROVEN, "power took flushed messages"
    assert verdict(71, 72, 75, cut=True) is Verdict.NEWER
    given_up = Found(path, False, 71, 72, 75)
    assert judge(given_up, 70, may_be_cut=False, accepted=True) is Verdict.UNPROVEN
    assert verdict(70, 70, 75) is Verdict.UNPROVEN
    assert verdict(60, 60, 70) is Verdict.NEEDLESS, "its tail was copied"
    assert verdict(70, 70, 70) is Verdict.NEEDLESS
    assert judge(Found(path, empty=True), 70, may_be_cut=False) is Verdict.NEEDLESS
    assert judge(Found(path, empty=False), 70, may_be_cut=False) is Verdict.UNPROVEN


def test_names_tell_what_cannot_lie_behind_the_end() -> None:
    manifest = Manifest(epoch=3, segments=(Segment(0, 1, 10, 900, 5), Segment(10, 3)))
    old, side, same = Segment(5, 2).path(KEY), index_path(Segment(5, 2).path(KEY)), Segment(10, 2)
    numbered = Segment(0, 3, number=77).path(KEY)
    present = [old, side, same.path(KEY), numbered, manifest.segments[0].path(KEY), "t/0/other"]
    found = split(KEY, manifest, present)
    assert found.doubtful == [same.path(KEY), numbered]
    assert found.needless == [old, side]


async def sealed_log(messages: int = 5) -> Bed:
    bed = await open_bed(limits=PLAIN)
    for number in range(messages):
        await put(bed.log(), b"%d" % number)
    await bed.store.close()
    return bed


def changed(storage: MemoryStorage, **last: int) -> Manifest:
    """Change the last segment as the manifest names it."""
    (record,) = log_records(storage)
    manifest = Manifest.decode(storage.records[record].record.value)
    segment = manifest.segments[-1]._replace(**last)
    manifest = replace(manifest, segments=(*manifest.segments[:-1], segment), end_state=b"")
    known = storage.records[record].record
    storage.records[record].record = replace(known, value=manifest.encode())
    return manifest


async def test_a_manifest_that_says_less_than_the_side_index_is_refused() -> None:
    """One flipped bit in its number hid 40 of 77 messages, although file and index knew them."""
    bed = await sealed_log(77)
    changed(bed.storage, next_offset=37)
    again = await open_bed(bed.storage, limits=PLAIN)
    with pytest.raises(CorruptLog, match=r"ends at offset 37, but .*idx says that it reached 77"):
        await again.log().offsets()
    with pytest.raises(CorruptLog):
        await put(again.log(), b"given twice")
    assert len(await proven_payloads(again.log())) >= 37
    await again.store.close()


async def test_a_manifest_that_says_less_than_the_file_is_refused() -> None:
    bed = await sealed_log()
    (record,) = log_records(bed.storage)
    path = Manifest.decode(bed.storage.records[record].record.value).segments[-1].path(KEY)
    shorter = len(bed.storage.files[path].content) - 2 * (84 + 1) - 84  # two blocks and the mark
    changed(bed.storage, next_offset=3, bytes=shorter)
    del bed.storage.files[index_path(path)]
    again = await open_bed(bed.storage, limits=PLAIN)
    for _ in range(2):
        with pytest.raises(CorruptLog, match=r"ends at offset 3, but .*log says that it reached 4"):
            await put(again.log(), b"given twice")
    await again.store.close()


async def test_a_sealed_file_that_lost_its_end_is_named_at_the_first_question() -> None:
    bed = await sealed_log()
    (path,) = segments(bed.storage)
    del bed.storage.files[path].content[-100:]
    again = await open_bed(bed.storage, limits=PLAIN)
    with pytest.raises(CorruptLog, match="ends before its"):
        await again.log().offsets()
    await again.store.close()


@pytest.mark.parametrize("ends", ["closed", "crashed"])
async def test_no_log_ends_before_what_its_groups_have_read(ends: str) -> None:
    bed = await open_bed(limits=PLAIN)
    for number in range(5):
        await put(bed.log(), b"%d" % number)
    await (bed.store.close() if ends == "closed" else crash(bed))

    async def read_to(key: PartitionKey) -> int:
        return 6 if key == KEY else 0

    again = await open_bed(bed.storage, limits=PLAIN)
    use_positions(again.store, read_to)
    with pytest.raises(CorruptLog, match=r"position of a consumer group says that it reached 6"):
        await again.log().offsets()
    with pytest.raises(CorruptLog):
        await put(again.log(), b"given twice")
    await again.store.close()


@pytest.mark.parametrize("ends", ["closed", "crashed"])
async def test_an_earlier_version_did_not_say_that_a_loss_of_power_took_what_groups_read(
    ends: str,
) -> None:
    bed = await open_bed(limits=PLAIN)
    await put(bed.log(), b"left")
    await (bed.store.close() if ends == "closed" else crash(bed))
    (path,) = log_records(bed.storage)
    stored = bed.storage.records[path].record
    value = stored.value[: stored.value.index(b',"crc"')] + b"}"
    bed.storage.records[path].record = bed.storage.record(value, stored.version)

    async def read_to(key: PartitionKey) -> int:
        return 6

    for next_offset in (1, 2, 3):  # its record says it from now on
        again = await open_bed(bed.storage, limits=PLAIN)
        use_positions(again.store, read_to)
        assert (await again.log().offsets()).next == next_offset
        assert await put(again.log(), b"more") == next_offset
        await crash(again)


async def test_a_seal_leaves_a_witness_of_a_single_group() -> None:
    bed = await open_bed(limits=PLAIN)
    await put(bed.log(), b"only")
    writer = bed.log().writer
    await writer.run(lambda: seal(writer))
    (record,) = log_records(bed.storage)
    del bed.storage.records[record]
    await crash(bed)
    await refused(bed.storage, PLAIN, 0)
