"""Idempotent producers: each (id, epoch, sequence) is stored once, also over restarts."""

import struct
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
from opentalos.log.segment import producers, state_format
from opentalos.log.segment.producers import (
    BATCHES_KEPT,
    SERVER_SHARE,
    UNOWNED_SHARE,
    WRAPPED_SEQUENCES,
    ProducerTable,
    share_of,
)
from opentalos.log.segment.state_format import LogState
from opentalos.model.errors import CorruptLog, OutcomeUnknown, ProducerFenced, SequenceGap
from opentalos.model.message import (
    PRODUCER_ID_MAX,
    Durability,
    MessageBlock,
    PayloadFormat,
    ProducerStamp,
    StoredBefore,
)

KAFKA = PayloadFormat.KAFKA
PRINCIPAL = 7  # of the bed's blocks
STRANGER = 66


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
    await log.fence_producer(9, 3, PRINCIPAL)
    with pytest.raises(ProducerFenced):
        await put_block(log, stamped(1))
    with pytest.raises(ProducerFenced):
        await log.fence_producer(9, 2, PRINCIPAL)
    await crash(bed)
    again = await open_bed(bed.storage)
    with pytest.raises(ProducerFenced):
        await put_block(again.log(), stamped(1))
    assert await put_block(again.log(), stamped(0, epoch=3)) == 1
    assert await payloads(again.log()) == [b"0-0", b"3-0"]
    await again.store.close()


async def test_an_announcement_alone_survives_clean_and_unclean_ends() -> None:
    bed = await open_bed()
    await bed.log().fence_producer(9, 3, PRINCIPAL)
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
        await bed.log().fence_producer(9, epoch, PRINCIPAL)
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
    await log.fence_producer(9, 3, PRINCIPAL)
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
            assert table.check(1, stamp, 1) is None
            table.note(1, stamp, 1, 100 * producer + sequence)
    assert [producer for _, producer, _ in table.producers()] == [2, 3, 4]
    assert table.check(1, ProducerStamp(4, 0, 6), 1) == 406
    assert table.check(1, ProducerStamp(4, 0, 2), 1) == 402
    assert table.check(1, ProducerStamp(4, 0, 1), 1) == -1
    # What a forgotten producer stored is unknown: only a first attempt of a new one is accepted.
    assert isinstance(table.check(1, ProducerStamp(1, 0, 50), 1), SequenceGap)
    assert isinstance(table.check(1, ProducerStamp(1, 0, 0, repeated=True), 1), SequenceGap)
    assert table.check(1, ProducerStamp(1, 1, 0), 1) is None
    assert isinstance(table.check(1, ProducerStamp(4, 0, 5), 3), SequenceGap)
    assert isinstance(table.check(1, ProducerStamp(4, 1, 5), 1), SequenceGap)


def test_the_state_round_trips_through_its_bytes() -> None:
    state = LogState()
    state.last_append_ms, state.total_bytes = 5, 7
    state.producers.forgotten = state.producers.share(6).forgotten = True
    for sequence in range(7):
        state.producers.note(6, ProducerStamp(1, 2, sequence), 1, sequence)
    raw = state.encode()
    again = LogState.decode(raw)
    assert again.encode() == raw
    for cut in range(len(raw)):
        with pytest.raises(CorruptLog):
            LogState.decode(raw[:cut])


# --- principals -----------------------------------------------------------------------------------


def strange(sequence: int, *, epoch: int = 0) -> MessageBlock:
    """A block of another principal with the same producer id."""
    return stamped(sequence, epoch=epoch)._replace(principal=STRANGER)


@pytest.mark.parametrize("end", ["none", "close", "crash"])
async def test_two_principals_use_one_producer_id_without_meeting(end: str) -> None:
    bed = await open_bed()
    assert await put_block(bed.log(), strange(0)) == 0
    assert await put_block(bed.log(), stamped(0)) == 1, "a stranger's block answered for this one"
    if end != "none":
        await (bed.store.close() if end == "close" else crash(bed))
        bed = await open_bed(bed.storage)
    assert await put_block(bed.log(), strange(1)) == 2
    assert await put_block(bed.log(), stamped(0)) == 1
    assert await put_block(bed.log(), strange(0)) == 0
    assert await put_block(bed.log(), stamped(1)) == 3
    assert len(await payloads(bed.log())) == 4
    await bed.store.close()


@pytest.mark.parametrize("end", ["none", "close", "crash"])
async def test_no_principal_fences_the_producer_of_another(end: str) -> None:
    bed = await open_bed()
    await put_block(bed.log(), stamped(0))
    await put_block(bed.log(), strange(0, epoch=8))
    await bed.log().fence_producer(9, 9, STRANGER)
    if end != "none":
        await (bed.store.close() if end == "close" else crash(bed))
        bed = await open_bed(bed.storage)
    assert await put_block(bed.log(), stamped(1)) == 2
    with pytest.raises(ProducerFenced):
        await put_block(bed.log(), strange(1, epoch=8))
    await bed.store.close()


def fill(table: ProducerTable, principal: int, count: int, first: int = 1) -> None:
    for producer_id in range(first, first + count):
        table.note(principal, ProducerStamp(producer_id, 0, 0), 1, producer_id)


def test_a_principal_evicts_only_its_own_producers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_OF_PRINCIPAL_MAX", 3)
    table = ProducerTable()
    fill(table, 1, 3)
    fill(table, 2, 50)
    assert [each[:2] for each in table.producers()] == [
        *((1, n) for n in (1, 2, 3)),
        (2, 48),
        (2, 49),
        (2, 50),
    ]
    assert table.check(1, ProducerStamp(1, 0, 1), 1) is None
    # What others forgot does not make the first attempts of this one doubtful.
    assert table.check(1, ProducerStamp(4, 0, 0, repeated=True), 1) is None
    assert isinstance(table.check(2, ProducerStamp(4, 0, 0, repeated=True), 1), SequenceGap)
    assert len(table) == 6


def test_a_full_table_takes_from_the_principal_with_the_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 8)
    table = ProducerTable()
    fill(table, 1, 2)
    fill(table, 2, 6)
    for stranger in range(3, 6):
        fill(table, stranger, 10)
    counts = {principal: len(share.producers) for principal, share in table.shares()}
    assert sum(counts.values()) == 8
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_new_producer_stays_where_every_principal_has_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 2)
    table = ProducerTable()
    for principal in (1, 2, 3):
        fill(table, principal, 1)
    assert [each[0] for each in table.producers()] == [2, 3]
    # Nobody knows any more what the first one stored.
    assert isinstance(table.check(1, ProducerStamp(1, 0, 0, repeated=True), 1), SequenceGap)


def test_guests_and_the_server_itself_have_shares_of_their_own() -> None:
    assert share_of(0, 5) == 0
    assert share_of(0, PRODUCER_ID_MAX + 1) == SERVER_SHARE
    assert share_of(3, PRODUCER_ID_MAX + 1) == 3


def old_state(
    producer_id: int, epoch: int, next_sequence: int, batches: list[tuple[int, int, int]]
) -> bytes:
    """A state of version 1 with one producer."""
    head = struct.pack(">HHqqQI", 1, 0, 5, -1, 700, 1)
    body = struct.pack(">QIQB", producer_id, epoch, next_sequence, len(batches))
    return head + body + b"".join(struct.pack(">QIQ", *batch) for batch in batches)


def test_an_entry_without_principal_belongs_to_the_first_that_continues_it() -> None:
    state = LogState.decode(old_state(9, 2, 6, [(4, 2, 40)]))
    assert (state.last_append_ms, state.total_bytes, len(state.producers)) == (5, 700, 1)
    again = LogState.decode(state.encode())
    for table in (state.producers, again.producers):
        assert table.check(1, ProducerStamp(9, 2, 4), 2) == 40
        assert isinstance(table.check(1, ProducerStamp(9, 1, 0), 1), ProducerFenced)
        table.note(1, ProducerStamp(9, 2, 6), 1, 41)
        assert [each[:2] for each in table.producers()] == [(1, 9)]
        assert table.check(1, ProducerStamp(9, 2, 4), 2) == 40
        assert table.check(2, ProducerStamp(9, 0, 0), 1) is None
        assert UNOWNED_SHARE not in dict(table.shares())


def test_an_older_epoch_does_not_take_an_entry_without_principal() -> None:
    table = LogState.decode(old_state(9, 2, 6, [])).producers
    table.note(3, ProducerStamp(9, 1, 0), 1, 41)  # of a log that was scanned
    assert table.check(1, ProducerStamp(9, 2, 6), 1) is None
    assert len(table) == 2


def test_a_state_of_an_older_server_agrees_with_one_that_names_principals() -> None:
    old = LogState.decode(old_state(9, 2, 6, [(4, 2, 40)]))
    scanned = LogState.decode(old_state(9, 2, 4, []))
    scanned.producers.note(7, ProducerStamp(9, 2, 4), 2, 40)
    assert scanned.agrees(old)
    scanned.total_bytes += 1
    assert not scanned.agrees(old)
    assert not LogState.decode(old.encode()).agrees(LogState())


def test_more_producers_than_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    state = LogState()
    fill(state.producers, 1, 2)
    fill(state.producers, 2, 2)
    monkeypatch.setattr(state_format, "PRODUCERS_MAX", 3)
    with pytest.raises(CorruptLog):
        LogState.decode(state.encode())


def test_sequences_of_kafka_begin_again_behind_the_largest() -> None:
    table = ProducerTable()
    last = WRAPPED_SEQUENCES - 4
    table.note(1, ProducerStamp(7, 0, last), 10, 100)  # 4 before the end and 6 behind it
    assert table.check(1, ProducerStamp(7, 0, 6), 3, KAFKA) is None
    others = table.check(1, ProducerStamp(7, 0, 6), 3)  # of a client of Talos it is an old one
    assert isinstance(others, StoredBefore)
    assert isinstance(table.check(1, ProducerStamp(7, 0, 7), 3, KAFKA), SequenceGap)
    assert table.check(1, ProducerStamp(7, 0, last), 10, KAFKA) == StoredBefore(100)
    for number in range(6):
        table.note(1, ProducerStamp(7, 0, 6 + number), 1, 110 + number)
    old = table.check(1, ProducerStamp(7, 0, last), 10, KAFKA)
    assert isinstance(old, StoredBefore)
    assert old == -1
    assert table.check(1, ProducerStamp(7, 0, 9), 1, KAFKA) == StoredBefore(113)


def test_a_gap_says_whether_the_producer_is_known() -> None:
    table = ProducerTable()
    unknown = table.check(1, ProducerStamp(7, 0, 6), 1)
    assert isinstance(unknown, SequenceGap)
    assert not unknown.producer_known
    table.note(1, ProducerStamp(7, 0, 0), 1, 100)
    known = table.check(1, ProducerStamp(7, 0, 6), 1)
    assert isinstance(known, SequenceGap)
    assert known.producer_known
