"""Idempotent producers: each (id, epoch, sequence) is stored once, also over restarts."""

from dataclasses import replace

import pytest
from tests.unit.log.bed import (
    LIMITS,
    TOPIC,
    Answers,
    block,
    crash,
    open_bed,
    payloads,
    put,
    put_block,
    until,
)
from tests.unit.log.faults import FailOnce, FaultyFiles, Steps

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.results import TopicLogSettings
from opentalos.log.segment import producers
from opentalos.log.segment.producers import BATCHES_KEPT, ProducerTable
from opentalos.log.segment.state_format import LogState
from opentalos.model.errors import CorruptLog, OutcomeUnknown, ProducerFenced, SequenceGap
from opentalos.model.message import Durability, MessageBlock, ProducerStamp


def stamped(sequence: int, *, epoch: int = 0, messages: int = 1) -> MessageBlock:
    stamp = ProducerStamp(9, epoch, sequence)
    return block(b"%d-%d" % (epoch, sequence), messages, stamp)


async def test_a_repeated_block_is_acknowledged_with_its_first_offset() -> None:
    bed = await open_bed()
    log = bed.log()
    assert await put_block(log, stamped(0, messages=2)) == 0
    assert await put_block(log, stamped(2)) == 2
    assert await put_block(log, stamped(0, messages=2)) == 0
    assert await put_block(log, stamped(2)) == 2
    assert await payloads(log) == [b"0-0", b"0-2"]
    await bed.store.close()


@pytest.mark.parametrize("clean", [True, False])
async def test_duplicates_are_found_after_a_restart(clean: bool) -> None:
    bed = await open_bed()
    for sequence in range(8):
        await put_block(bed.log(), stamped(sequence))
    await (bed.store.close() if clean else crash(bed))
    again = await open_bed(bed.storage)
    log = again.log()
    assert await put_block(log, stamped(7)) == 7
    assert await put_block(log, stamped(0)) == -1  # older than the batches kept
    assert await put_block(log, stamped(8)) == 8
    with pytest.raises(SequenceGap):
        await put_block(log, stamped(10))
    assert len(await payloads(log)) == 9
    await again.store.close()


async def test_a_duplicate_in_the_same_group_waits_for_its_original() -> None:
    bed = await open_bed()
    answers = Answers()
    for sequence in (0, 0, 1, 1, 0):
        bed.log().append(stamped(sequence), answers)
    await until(lambda: len(answers.got) >= 5)
    assert sorted(answers.bases) == [0, 0, 0, 1, 1]
    assert await payloads(bed.log()) == [b"0-0", b"0-1"]
    await bed.store.close()


@pytest.mark.parametrize("after", [False, True])
async def test_a_failed_commit_does_not_confuse_the_table(after: bool) -> None:
    storage, steps = MemoryStorage(), Steps()
    bed = await open_bed(storage, files=FaultyFiles(storage, steps))
    log, answers = bed.log(), Answers()
    await put_block(log, stamped(0))
    steps.script = FailOnce("commit", OutcomeUnknown("lost"), after=after)
    for sequence in (1, 1, 2):
        log.append(stamped(sequence), answers)
    await until(lambda: len(answers.got) >= 3)
    assert sorted(answers.got) == [(1, None), (1, None), (2, None)]
    assert await payloads(log) == [b"0-0", b"0-1", b"0-2"]
    await bed.store.close()


async def test_an_announced_epoch_fences_older_ones_permanently() -> None:
    bed = await open_bed()
    log = bed.log()
    await put_block(log, stamped(0))
    await log.fence_producer(9, 3)
    with pytest.raises(ProducerFenced):
        await put_block(log, stamped(1))
    with pytest.raises(ProducerFenced):
        await log.fence_producer(9, 2)
    await crash(bed)
    again = await open_bed(bed.storage)
    with pytest.raises(ProducerFenced):
        await put_block(again.log(), stamped(1))
    assert await put_block(again.log(), stamped(0, epoch=3)) == 1
    assert await payloads(again.log()) == [b"0-0", b"3-0"]
    await again.store.close()


async def test_an_announcement_alone_survives_clean_and_unclean_ends() -> None:
    bed = await open_bed()
    await bed.log().fence_producer(9, 3)
    for end in ("close", "crash", "close"):
        await (bed.store.close() if end == "close" else crash(bed))
        bed = await open_bed(bed.storage)
        with pytest.raises(ProducerFenced):
            await put_block(bed.log(), stamped(0, epoch=2))
    assert await put(bed.log(), b"a") == 0
    await bed.store.close()


async def test_a_segment_with_announcements_only_is_not_rolled() -> None:
    """The next one would begin at the same offset: the same file."""
    bed = await open_bed(limits=replace(LIMITS, segment_bytes_max=1 << 10))
    for epoch in range(1, 21):
        await bed.log().fence_producer(9, epoch)
    assert await put_block(bed.log(), stamped(0, epoch=20)) == 0
    assert await put_block(bed.log(), stamped(1, epoch=20)) == 1  # this one after a roll
    counters = bed.store.counters
    assert (counters.commit_failures, counters.openings, counters.rolls) == (0, 1, 1)
    await bed.store.close()


@pytest.mark.parametrize("crashed", [False, True])
async def test_a_changed_durability_applies_after_announcements_only(crashed: bool) -> None:
    bed = await open_bed()
    flushed = TopicLogSettings(TOPIC.topic_uuid, Durability.FLUSHED, 1e6)
    log = bed.store.partition(flushed, 0)
    await log.fence_producer(9, 3)
    if crashed:
        await crash(bed)
        bed = await open_bed(bed.storage)
    bed.store.update_topic(TOPIC)
    assert await put_block(bed.store.partition(TOPIC, 0), stamped(0, epoch=3)) == 0
    assert bed.store.counters.commit_failures == 0
    with pytest.raises(ProducerFenced):
        await put_block(bed.log(), stamped(1, epoch=2))
    await bed.store.close()


def test_the_table_keeps_five_batches_and_forgets_the_oldest_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 3)
    table = ProducerTable()
    for producer in range(1, 5):
        for sequence in range(BATCHES_KEPT + 2):
            stamp = ProducerStamp(producer, 0, sequence)
            assert table.check(stamp, 1) is None
            table.note(stamp, 1, 100 * producer + sequence)
    assert [producer for producer, _ in table.items()] == [2, 3, 4]
    assert table.check(ProducerStamp(4, 0, 6), 1) == 406
    assert table.check(ProducerStamp(4, 0, 2), 1) == 402
    assert table.check(ProducerStamp(4, 0, 1), 1) == -1
    # What a forgotten producer stored is unknown: only a first attempt of a new one is accepted.
    assert isinstance(table.check(ProducerStamp(1, 0, 50), 1), SequenceGap)
    assert isinstance(table.check(ProducerStamp(1, 0, 0, repeated=True), 1), SequenceGap)
    assert table.check(ProducerStamp(1, 1, 0), 1) is None
    assert isinstance(table.check(ProducerStamp(4, 0, 5), 3), SequenceGap)
    assert isinstance(table.check(ProducerStamp(4, 1, 5), 1), SequenceGap)


def test_the_state_round_trips_through_its_bytes() -> None:
    state = LogState()
    state.last_append_ms, state.total_bytes = 5, 7
    state.producers.forgotten = True
    for sequence in range(7):
        state.producers.note(ProducerStamp(1, 2, sequence), 1, sequence)
    raw = state.encode()
    again = LogState.decode(raw)
    assert again.encode() == raw
    for cut in range(len(raw)):
        with pytest.raises(CorruptLog):
            LogState.decode(raw[:cut])
