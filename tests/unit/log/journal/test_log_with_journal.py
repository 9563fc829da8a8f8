"""Whole logs behind a journal: crash and recovery, moves, deletion, verification."""

import asyncio
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
from tests.unit.log.faults import FailOnce, FaultyFiles, FaultyMeta, Steps
from tests.unit.log.journal.journals import hang, journal_files

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.journal.journaled_file import JournaledFile
from opentalos.log.journal.store import End
from opentalos.log.journal.upkeep import PASS_S, SEARCH_FIRST_S
from opentalos.log.log_store import DIRECT_BYTES_MIN
from opentalos.log.maintenance.verify import Finding, LogVerifier
from opentalos.log.manifest.held_segments import HeldSegments
from opentalos.log.manifest.manifest import Manifest
from opentalos.model.errors import CorruptLog, NotOwner, OutcomeUnknown
from opentalos.model.message import PartitionKey

JOURNALED = replace(LIMITS, journal="on", journals=1, segment_bytes_max=1 << 20)


async def journaled_bed(storage: MemoryStorage | None = None, steps: Steps | None = None) -> Bed:
    storage = storage or MemoryStorage()
    if steps is None:
        return await open_bed(storage, limits=JOURNALED)
    files, meta = FaultyFiles(storage, steps), FaultyMeta(storage, steps)
    return await open_bed(storage, limits=JOURNALED, files=files, meta=meta)


def manifest(storage: MemoryStorage, partition: int = 0) -> Manifest:
    path = next(path for path in log_records(storage) if path.endswith(f"/{partition}"))
    return Manifest.decode(storage.records[path].record.value)


async def findings(bed: Bed) -> list[Finding]:
    verifier = LogVerifier(bed.files, bed.meta)
    return [
        finding
        for key in await verifier.partitions()
        async for finding in verifier.check(key, lambda: None)
    ]


async def written(partitions: int = 5, puts: int = 3) -> Bed:
    bed = await journaled_bed()
    for number in range(puts):
        await asyncio.gather(
            *(put(bed.log(at), b"%d-%d" % (at, number)) for at in range(partitions))
        )
    return bed


async def test_every_partition_of_a_crashed_server_has_its_end() -> None:
    bed = await written()
    await crash(bed)
    again = await journaled_bed(bed.storage)
    for at in range(5):
        assert await payloads(again.log(at)) == [b"%d-%d" % (at, number) for number in range(3)]
        assert await put(again.log(at), b"more") == 3
    await asyncio.sleep(2 * PASS_S)  # all are recovered: the former journal ends
    assert len(journal_files(bed.storage)) == 1
    await again.store.close()
    assert journal_files(bed.storage) == []


async def test_a_server_without_the_setting_recovers_what_one_with_it_left() -> None:
    bed = await written()
    await crash(bed)
    plain = await open_bed(bed.storage)
    for at in range(5):
        assert await payloads(plain.log(at)) == [b"%d-%d" % (at, number) for number in range(3)]
    assert manifest(bed.storage).journal == ""
    await asyncio.sleep(2 * PASS_S)
    assert journal_files(bed.storage) == []
    await plain.store.close()


async def test_a_crash_at_any_step_of_a_recovery_loses_nothing() -> None:
    bed = await written(partitions=1)
    await crash(bed)
    storage = bed.storage
    for stop_at in range(60):
        steps = Steps()
        meanwhile = await journaled_bed(storage, steps)
        steps.stop_at = steps.count + stop_at
        opening = asyncio.ensure_future(put(meanwhile.log(), b"more"))
        stopped = asyncio.ensure_future(steps.stopped.wait())
        await asyncio.wait([opening, stopped], return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            break
        opening.cancel()
        await crash(meanwhile)
        again = await journaled_bed(storage)
        found = await payloads(again.log())
        assert found[:3] == [b"0-0", b"0-1", b"0-2"]
        assert set(found[3:]) <= {b"more"}
        await asyncio.sleep(SEARCH_FIRST_S + 2 * PASS_S)  # the journals before it end
        await crash(again)
    else:
        pytest.fail("the opening never ended")
    stopped.cancel()


async def test_a_planned_move_leaves_nothing_in_the_journal_and_disturbs_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bed = await written(partitions=2)
    living = frozenset((bed.store._context.manifests.instance,))  # as in a cluster
    monkeypatch.setattr(HeldSegments, "living", lambda self: living)
    epoch = manifest(bed.storage, 1).epoch
    await bed.store.hand_off(PartitionKey(TOPIC.topic_uuid, 0), NotOwner("moved"))
    assert manifest(bed.storage).journal == ""
    other = await journaled_bed(bed.storage)
    assert await payloads(other.log(0)) == [b"0-0", b"0-1", b"0-2"]
    assert await put(bed.log(1), b"more") == 3
    assert manifest(bed.storage, 1).epoch == epoch
    await other.store.close()
    await bed.store.close()


async def test_a_server_whose_journal_was_fenced_claims_its_partitions_again() -> None:
    bed = await written(partitions=2)
    other = await journaled_bed(bed.storage)
    assert await put(other.log(0), b"taken") == 3  # not asked for: it fences the journal
    zombie = bed.log(0)
    bed.store.drop(PartitionKey(TOPIC.topic_uuid, 0), NotOwner("taken"))
    with pytest.raises(NotOwner):
        await put(zombie, b"zombie")
    epoch, journal = manifest(bed.storage, 1).epoch, manifest(bed.storage, 1).journal
    assert await put(bed.log(1), b"again") == 3
    assert manifest(bed.storage, 1).epoch == epoch + 1
    assert manifest(bed.storage, 1).journal != journal
    assert await payloads(bed.log(1)) == [b"1-0", b"1-1", b"1-2", b"again"]
    assert await payloads(other.log(0)) == [b"0-0", b"0-1", b"0-2", b"taken"]


async def test_what_an_ended_journal_had_is_neither_lost_nor_called_not_done() -> None:
    steps = Steps()
    bed = await journaled_bed(steps=steps)
    assert await put(bed.log(), b"a") == 0
    store = bed.store._context.journaled
    recover_end = store.recover_end
    (own,) = (path for path in bed.storage.files if path.startswith("journal/"))

    async def late(*args: Any, **named: Any) -> End:
        """Another server has taken over before, and ended the journal."""
        store.recover_end = recover_end  # type: ignore[method-assign]
        other = await journaled_bed(bed.storage)
        assert await put(other.log(), b"theirs") == 2
        await until(lambda: own not in bed.storage.files)
        await other.store.close()
        return await recover_end(*args, **named)

    store.recover_end = late  # type: ignore[method-assign]
    steps.script = FailOnce("commit", OutcomeUnknown("x"), after=True, path="journal/")
    with pytest.raises(OutcomeUnknown):
        await put(bed.log(), b"in doubt")
    assert await payloads(bed.log()) == [b"a", b"in doubt", b"theirs"]
    assert await put(bed.log(), b"again") == 3
    await bed.store.close()


async def test_a_failed_commit_of_the_journal_answers_every_put_once() -> None:
    steps = Steps()
    bed = await journaled_bed(steps=steps)
    await asyncio.gather(*(put(bed.log(at), b"a") for at in range(4)))
    for after in (False, True):
        steps.script = FailOnce("commit", OutcomeUnknown("x"), after=after, path="journal/")
        await asyncio.gather(*(put(bed.log(at), b"%d" % after) for at in range(4)))
    for at in range(4):
        assert await payloads(bed.log(at)) == [b"a", b"0", b"1"]
    await bed.store.close()


async def test_a_segment_that_cannot_be_written_is_left_without_a_put_that_asks() -> None:
    steps = Steps()
    bed = await journaled_bed(steps=steps)
    await put(bed.log(0), b"a")
    await put(bed.log(0), b"b")
    first = manifest(bed.storage)
    steps.script = FailOnce("commit", OutcomeUnknown("x"), path=TOPIC.topic_uuid)
    await asyncio.sleep(40)
    await until(lambda: manifest(bed.storage).epoch > first.epoch)
    assert await payloads(bed.log(0)) == [b"a", b"b"]
    await bed.store.close()


async def test_a_journal_that_no_manifest_names_ends_although_its_server_is_dead() -> None:
    bed = await written(partitions=2)
    for at in range(2):
        await bed.store.hand_off(PartitionKey(TOPIC.topic_uuid, at), NotOwner("moved"))
    await crash(bed)
    assert len(journal_files(bed.storage)) == 1
    again = await journaled_bed(bed.storage)
    await asyncio.sleep(SEARCH_FIRST_S + 3 * PASS_S)
    assert journal_files(bed.storage) == []
    assert await payloads(again.log(1)) == [b"1-0", b"1-1", b"1-2"]
    await again.store.close()


async def test_a_server_whose_unused_journal_was_ended_uses_another_one() -> None:
    bed = await written(partitions=1)
    await bed.store.hand_off(PartitionKey(TOPIC.topic_uuid, 0), NotOwner("moved"))
    other = await journaled_bed(bed.storage)
    await asyncio.sleep(SEARCH_FIRST_S + 3 * PASS_S)
    assert journal_files(bed.storage) == []
    for number in range(3):
        assert await put(bed.log(0), b"again") == 3 + number
    assert await payloads(bed.log(0)) == [b"0-0", b"0-1", b"0-2", *[b"again"] * 3]
    await bed.store.close()
    await other.store.close()


async def test_a_journal_that_a_manifest_names_is_not_searched_for() -> None:
    bed = await written(partitions=1)
    other = await journaled_bed(bed.storage)
    await asyncio.sleep(SEARCH_FIRST_S + 3 * PASS_S)
    epoch = manifest(bed.storage).epoch
    assert await put(bed.log(0), b"more") == 3
    assert manifest(bed.storage).epoch == epoch
    await bed.store.close()
    await other.store.close()


async def test_a_deleted_topic_leaves_nothing_that_holds_the_journal() -> None:
    bed = await written(partitions=2)
    await bed.store.delete_topic(TOPIC.topic_uuid, 2)
    await bed.store.close()
    assert journal_files(bed.storage) == []


async def test_a_crashed_log_with_a_journal_has_no_problem() -> None:
    bed = await written()
    await crash(bed)
    assert await findings(bed) == []
    last = manifest(bed.storage).segments[-1].path(PartitionKey(TOPIC.topic_uuid, 0))
    bed.storage.files[last].content += bytes(30)  # torn while it was written out
    assert [finding for finding in await findings(bed) if finding.problem] == []
    assert not any(file.fenced for file in bed.storage.files.values())


async def test_rot_of_a_journal_is_found() -> None:
    bed = await written(partitions=2)
    await crash(bed)
    path = next(path for path in bed.storage.files if path.endswith(".jnl"))
    content = bed.storage.files[path].content
    content[len(content) // 2] ^= 1
    found = await findings(bed)
    assert any("damaged" in finding.text for finding in found if finding.problem)


async def test_a_missing_journal_is_found() -> None:
    bed = await written(partitions=2)
    await crash(bed)
    for path in [path for path in bed.storage.files if path.endswith(".jnl")]:
        del bed.storage.files[path]
    found = await findings(bed)
    assert ["is missing" in finding.text for finding in found if finding.problem] == [True, True]


async def test_a_move_whose_segment_cannot_be_written_out_ends() -> None:
    steps = Steps()
    bed = await journaled_bed(steps=steps)
    for at in range(3):
        await put(bed.log(0), b"%d" % at)
    key = PartitionKey(TOPIC.topic_uuid, 0)
    file = bed.log(0).writer.segment
    assert file is not None
    assert isinstance(file.file, JournaledFile)

    file.file._file.commit = hang  # type: ignore[method-assign, union-attr]
    begun = bed.store.counters.hung_commits
    moved = asyncio.ensure_future(bed.store.hand_off(key, NotOwner("moved")))
    await asyncio.wait([moved], timeout=JOURNALED.commit_deadline_s)
    assert isinstance(moved.exception(), OutcomeUnknown)
    assert bed.store.counters.hung_commits == begun + 1
    other = await journaled_bed(bed.storage)
    assert await payloads(other.log(0)) == [b"0", b"1", b"2"]


async def test_sealed_segments_are_read_although_the_journal_is_damaged() -> None:
    bed = await written(partitions=1)
    await bed.store.hand_off(PartitionKey(TOPIC.topic_uuid, 0), NotOwner("moved"))
    await crash(bed)
    again = await journaled_bed(bed.storage)
    for number in (3, 4, 5):
        assert await put(again.log(0), b"more") == number
    await crash(again)
    named = manifest(bed.storage).journal
    for path in [path for path in bed.storage.files if named in path]:
        del bed.storage.files[path]
    third = await journaled_bed(bed.storage)
    with pytest.raises(CorruptLog):
        await put(third.log(0), b"refused")
    assert await proven_payloads(third.log(0)) == [b"0-0", b"0-1", b"0-2"]
    with pytest.raises(CorruptLog):
        await payloads(third.log(0), 4)
    assert third.store.counters.corrupt == 1
    assert manifest(bed.storage).unsealed is not None
    await third.store.close()


async def test_a_segment_whose_journal_died_is_rolled_before_its_copy_grows_too_large() -> None:
    bed = await open_bed(limits=replace(JOURNALED, journal_bytes_max=1 << 10))
    log = bed.log(0)
    await put(log, b"a")
    await put(log, b"b")
    assert log.writer.segment is not None
    file = log.writer.segment.file
    assert isinstance(file, JournaledFile)
    file.journal.fail(OutcomeUnknown("the disk"))
    written = 2
    while log.writer.segment.file is file:
        await put(log, bytes(200))
        written += 1
        assert file.tail_bytes < 2 << 10
    assert written > 3  # not at once: each roll costs a file and a change of the manifest
    assert log.writer.segment.tail_bytes == 0
    assert manifest(bed.storage).journal not in ("", file.journal.name)
    await crash(bed)
    again = await journaled_bed(bed.storage)
    assert len(await payloads(again.log(0), 0)) == written
    await again.store.close()


async def test_a_segment_whose_journal_lives_is_not_rolled_for_its_tail() -> None:
    bed = await open_bed(limits=replace(JOURNALED, journal_bytes_max=1 << 10))
    for number in range(40):
        await put(bed.log(0), b"%d" % number + bytes(200))
    assert bed.store.counters.rolls == 0
    await bed.store.close()


async def test_what_a_segment_itself_proves_is_read_although_the_journal_is_lost() -> None:
    bed = await journaled_bed()
    large = bytes(DIRECT_BYTES_MIN)
    for payload in (b"a", b"b", large, large, b"c"):  # the second large one proves the first
        await put(bed.log(0), payload)
    await crash(bed)
    named = manifest(bed.storage).journal
    for path in [path for path in bed.storage.files if named in path]:
        del bed.storage.files[path]
    again = await journaled_bed(bed.storage)
    with pytest.raises(CorruptLog):
        await put(again.log(0), b"refused")
    assert await proven_payloads(again.log(0)) == [b"a", b"b", large]
    with pytest.raises(CorruptLog):
        await payloads(again.log(0), 4)
    await again.store.close()


async def test_a_server_that_stops_ends_what_it_recovered() -> None:
    bed = await written(partitions=2)
    await crash(bed)
    again = await journaled_bed(bed.storage)
    for partition in range(2):
        await payloads(again.log(partition), 0)
    await again.store.close()
    assert journal_files(bed.storage) == []
