"""Mutants of Kafka's records, groups, and deleted beginnings; see ``mutants`` for their use."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.metering_mutants import drop_what_is_not_metered
from tests.simulation.mutants import Mutant, _names

from opentalos.broker.cluster.cluster_ownership import ClusterLeaderEpochs, ClusterOwnership
from opentalos.broker.cluster.control import publication
from opentalos.broker.groups.group_names import user_of
from opentalos.broker.groups.kafka import offsets
from opentalos.broker.groups.kafka.offsets import KafkaOffsetService
from opentalos.broker.messaging.reading import fetches
from opentalos.broker.messaging.reading.fetches import FetchService
from opentalos.group.kafka.leases import Seat, worker_of
from opentalos.log.manifest import deletion
from opentalos.log.manifest.manifest import Manifest
from opentalos.log.metering import recount
from opentalos.log.partition.jobs import change_sealed
from opentalos.log.partition.lifecycle import PartitionLifecycle
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.segment import producers
from opentalos.log.segment.producers import ProducerTable
from opentalos.model.errors import NotOwner, SequenceGap, TalosError
from opentalos.model.message import PayloadFormat, ProducerStamp, StoredBefore
from opentalos.testing.simulation.clients.records.producers import KafkaProducer
from opentalos.testing.simulation.cluster.storage_worlds import MOVED_RECORDS
from opentalos.testing.simulation.stores.faults import (
    ClusterFaults,
    FileFaults,
    MetaFaults,
    WorldFaults,
)
from opentalos.testing.simulation.world.storage_worlds import RECORDS

PLAIN = replace(RECORDS, metered=0.0, chaos_s=12.0)
METERED = replace(RECORDS, chaos_s=12.0)
POWER_LOSSES = replace(
    RECORDS,
    metered=0.0,
    think_s=0.05,
    files=FileFaults(),
    meta=MetaFaults(),
    world=WorldFaults(power_loss=0.9),
)
STALE_LEADERS = replace(
    MOVED_RECORDS,
    think_s=0.1,
    session_s=1.0,
    cluster=ClusterFaults(cut_meta=0.9, cut_s=8.0, drain=1.0, join=0.5),
)
# --- producers ------------------------------------------------------------------------------------


def _judge(patch: pytest.MonkeyPatch, judge: Any) -> None:
    """Replace the decision of a table about a block of Kafka's producers."""
    real = ProducerTable.check

    def check(
        self: ProducerTable, principal: int, stamp: ProducerStamp, messages: int, form: int = 0
    ) -> StoredBefore | TalosError | None:
        found = real(self, principal, stamp, messages, form)
        return found if form != PayloadFormat.KAFKA else judge(self, principal, stamp, found)

    patch.setattr(ProducerTable, "check", check)


def take_a_block_although_one_before_it_failed(patch: pytest.MonkeyPatch) -> None:
    _judge(patch, lambda _, __, ___, found: None if isinstance(found, SequenceGap) else found)


def store_a_repetition_of_a_kafka_producer(patch: pytest.MonkeyPatch) -> None:
    _judge(patch, lambda _, __, ___, found: None if isinstance(found, StoredBefore) else found)


def take_a_block_that_was_left_out_for_a_repetition(patch: pytest.MonkeyPatch) -> None:
    def judge(_: Any, __: int, ___: ProducerStamp, found: Any) -> Any:
        return StoredBefore(-1) if isinstance(found, SequenceGap) else found

    _judge(patch, judge)


def begin_an_epoch_after_an_unknown_outcome(patch: pytest.MonkeyPatch) -> None:
    """The producer sends what may be stored as something new."""
    real = KafkaProducer._send

    async def send(self: KafkaProducer, place: Any, batches: Any, late: Any) -> Any:
        outcomes = await real(self, place, batches, late)
        if outcomes[0].outcome.value != "unknown":
            return outcomes
        self._epoch += 1
        again = []
        sequence = 0
        for batch in batches:
            stamp = ProducerStamp(self._id, self._epoch, sequence)
            again.append(batch._replace(block=batch.block._replace(producer=stamp)))
            sequence += len(batch.ids)
        return await real(self, place, again, [])

    patch.setattr(KafkaProducer, "_send", send)


def count_sequences_beyond_their_wrap(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(producers, "WRAPPED_SEQUENCES", 1 << 32)


def compare_sequences_as_if_none_wrapped(patch: pytest.MonkeyPatch) -> None:
    def is_behind(sequence: int, messages: int, end: int, wraps: bool) -> bool:
        return sequence + messages <= end

    patch.setattr(producers, "_is_behind", is_behind)


# --- readers --------------------------------------------------------------------------------------


def begin_a_fetch_behind_its_block(patch: pytest.MonkeyPatch) -> None:
    """The block with the asked offset is left out if there is another one."""
    real = FetchService._take

    async def take(
        self: FetchService, caller: Any, found: Any, blocks: Sequence[Any], room: tuple[int, int]
    ) -> None:
        await real(self, caller, found, blocks[1:] or blocks, room)

    patch.setattr(FetchService, "_take", take)


def give_a_run_the_offset_of_its_block(patch: pytest.MonkeyPatch) -> None:
    real = fetches.MessageRun

    def run(base_offset: int, block: Any, messages: Any) -> Any:
        return real(block.base_offset, block, messages)

    patch.setattr(fetches, "MessageRun", run)
    patch.setattr("opentalos.testing.simulation.clients.records.readers.MessageRun", real)


# --- deleted beginnings ---------------------------------------------------------------------------


def answer_a_deletion_before_it_is_stored(patch: pytest.MonkeyPatch) -> None:
    async def delete_before(log: PartitionLog, offset: int) -> int:
        bounds = await log.offsets()
        wanted = bounds.next if offset == deletion.ALL else offset
        versioned = log.writer.versioned
        if bounds.start < wanted <= bounds.next:
            floored = replace(versioned.manifest, floor=wanted)
            log.writer.manifest_replaced(versioned._replace(manifest=floored))
        return log.range().start

    patch.setattr("opentalos.broker.messaging.record_deletion.delete_before", delete_before)


def store_no_floor(patch: pytest.MonkeyPatch) -> None:
    real = Manifest.encode
    patch.setattr(Manifest, "encode", lambda self: real(replace(self, floor=0)))


def forget_the_floor_with_a_new_epoch(patch: pytest.MonkeyPatch) -> None:
    real = Manifest.next_epoch
    patch.setattr(Manifest, "next_epoch", lambda self, *owner: replace(real(self, *owner), floor=0))


def lower_the_floor(patch: pytest.MonkeyPatch) -> None:
    """A deletion of less than was deleted before gives the rest back."""

    async def delete_before(log: PartitionLog, offset: int) -> int:
        bounds = await log.offsets()
        wanted = bounds.next if offset == deletion.ALL else offset
        writer = log.writer

        async def lower() -> None:
            await change_sealed(writer, replace(writer.versioned.manifest, floor=wanted))

        if 0 <= wanted <= bounds.next:
            await writer.run(lower)
        return log.range().start

    patch.setattr("opentalos.broker.messaging.record_deletion.delete_before", delete_before)


def give_what_is_hidden_to_readers(patch: pytest.MonkeyPatch) -> None:
    real = PartitionLog._holds
    patch.setattr(PartitionLog, "_holds", lambda self, offset, hidden=True: real(self, offset))


def give_what_is_hidden_from_memory(patch: pytest.MonkeyPatch) -> None:
    real = PartitionLog.read_cached

    def read_cached(self: PartitionLog, offset: int, **bounds: int) -> Any:
        writer = self.writer
        shown = writer.versioned
        writer.versioned = shown._replace(manifest=replace(shown.manifest, floor=0))
        try:
            return real(self, offset, **bounds)
        finally:
            writer.versioned = shown

    patch.setattr(PartitionLog, "read_cached", read_cached)


def keep_a_flushed_log_open_at_a_deletion(patch: pytest.MonkeyPatch) -> None:
    """A loss of power takes flushed messages, and new ones are below the floor."""

    async def raise_floor(writer: Any, offset: int) -> None:
        manifest = writer.versioned.manifest
        if manifest.first < offset <= writer.next_offset:
            await change_sealed(writer, replace(manifest, floor=offset))

    patch.setattr(deletion, "_raise_floor", raise_floor)


def delete_more_than_was_asked(patch: pytest.MonkeyPatch) -> None:
    real = deletion._raise_floor

    async def raise_floor(writer: Any, offset: int) -> None:
        await real(writer, min(offset + 5, writer.next_offset))

    patch.setattr(deletion, "_raise_floor", raise_floor)


def meter_only_what_readers_get(patch: pytest.MonkeyPatch) -> None:
    """A new owner counts from the floor on."""

    async def blocks(log: PartitionLog, offset: int) -> Any:
        start = max(offset, log.range().start)
        found = await log.read(start, messages_max=1_000, bytes_max=1 << 20)
        return found.blocks

    patch.setattr(recount, "_blocks", blocks)
    real = recount._counted

    def counted(minutes: Any, found: Any) -> bool:
        if found and found[0].base_offset > minutes.next_offset:
            minutes.begin_at(found[0].base_offset)
        return real(minutes, found)

    patch.setattr(recount, "_counted", counted)


# --- members of groups ----------------------------------------------------------------------------


def let_former_members_commit(patch: pytest.MonkeyPatch) -> None:
    """Nobody asks whether a member is still one."""

    async def commit(
        self: KafkaOffsetService, caller: Any, hosted: Any, committer: Any, offset: Any
    ) -> Any:
        user = user_of(caller, offset.topic, committer.group)
        seat = Seat(worker=worker_of(committer.who.member), address="", may_take=lambda _: True)
        await self._leases.commit(user, seat, await self._position(user, offset))

    patch.setattr(offsets, "_refusal", lambda hosted, committer: None)
    patch.setattr(KafkaOffsetService, "_commit", commit)


# --- leaders --------------------------------------------------------------------------------------


def keep_the_epoch_when_partitions_move(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publication, "number_after", lambda before, wall_ms: before or 1)


def answer_in_epochs_that_are_not_known(patch: pytest.MonkeyPatch) -> None:
    """A former leader that has not heard of the move answers whoever has."""
    patch.setattr(ClusterLeaderEpochs, "check", lambda self, key, asked: None)

    async def confirm(self: ClusterLeaderEpochs, topic_uuid: str, asked: int) -> None:
        return

    patch.setattr(ClusterLeaderEpochs, "confirm", confirm)


def answer_after_the_hand_over(patch: pytest.MonkeyPatch) -> None:
    """A former leader goes on to answer what it has in memory."""
    real = ClusterOwnership.check
    had: set[tuple[int, str, int]] = set()

    def check(self: ClusterOwnership, topic_uuid: str, partition: int) -> None:
        key = (id(self), topic_uuid, partition)
        try:
            real(self, topic_uuid, partition)
        except NotOwner:
            if key not in had:
                raise
        else:
            had.add(key)

    hand_off = PartitionLifecycle.hand_off

    def handed_off(self: PartitionLifecycle, error: TalosError) -> None:
        hand_off(self, error)
        self.served = True

    patch.setattr(ClusterOwnership, "check", check)
    patch.setattr(PartitionLifecycle, "hand_off", handed_off)


RECORD_MUTANTS = (
    Mutant(
        "take a block although one before it failed",
        _names("sequence-hole", "order-inversion"),
        take_a_block_although_one_before_it_failed,
        PLAIN,
    ),
    Mutant(
        "store a repetition of a Kafka producer",
        _names("duplicate"),
        store_a_repetition_of_a_kafka_producer,
        PLAIN,
    ),
    Mutant(
        "take a block that was left out for a repetition",
        _names("lost-write"),
        take_a_block_that_was_left_out_for_a_repetition,
        PLAIN,
    ),
    Mutant(
        "begin an epoch after an unknown outcome",
        _names("duplicate"),
        begin_an_epoch_after_an_unknown_outcome,
        PLAIN,
    ),
    Mutant(
        "count sequences beyond their wrap",
        _names("false-sequence-gap"),
        count_sequences_beyond_their_wrap,
        PLAIN,
    ),
    Mutant(
        "compare sequences as if none wrapped",
        _names("false-sequence-gap", "lost-write"),
        compare_sequences_as_if_none_wrapped,
        PLAIN,
    ),
    Mutant(
        "begin a fetch behind its block",
        _names("poll-skip"),
        begin_a_fetch_behind_its_block,
        PLAIN,
    ),
    Mutant(
        "give a run the offset of its block",
        _names("inconsistent-offsets"),
        give_a_run_the_offset_of_its_block,
        PLAIN,
    ),
    Mutant(
        "answer a deletion before it is stored",
        _names("lost-floor"),
        answer_a_deletion_before_it_is_stored,
        PLAIN,
    ),
    Mutant("store no floor", _names("lost-floor"), store_no_floor, PLAIN),
    Mutant(
        "forget the floor with a new epoch",
        _names("lost-floor"),
        forget_the_floor_with_a_new_epoch,
        PLAIN,
    ),
    Mutant("lower the floor", _names("lost-floor"), lower_the_floor, PLAIN),
    Mutant(
        "give what is hidden to readers",
        _names("deleted-read"),
        give_what_is_hidden_to_readers,
        PLAIN,
    ),
    Mutant(
        "give what is hidden from memory",
        _names("deleted-read"),
        give_what_is_hidden_from_memory,
        PLAIN,
    ),
    Mutant(
        "keep a flushed log open at a deletion",
        _names("hidden-write", "next-offset-went-back"),
        keep_a_flushed_log_open_at_a_deletion,
        POWER_LOSSES,
    ),
    Mutant(
        "delete more than was asked",
        _names("premature-deletion"),
        delete_more_than_was_asked,
        PLAIN,
    ),
    Mutant(
        "meter only what readers get",
        _names("meter-drift"),
        meter_only_what_readers_get,
        METERED,
    ),
    Mutant(
        "drop what is hidden and not metered",
        _names("meter-drift"),
        drop_what_is_not_metered,
        METERED,
    ),
)

RECORD_CLUSTER_MUTANTS = (
    Mutant(
        "forget the floor at a take-over",
        _names("lost-floor"),
        forget_the_floor_with_a_new_epoch,
        MOVED_RECORDS,
    ),
    Mutant(
        "store a repetition after a move",
        _names("duplicate"),
        store_a_repetition_of_a_kafka_producer,
        MOVED_RECORDS,
    ),
    Mutant(
        "keep the epoch when partitions move",
        _names("two-leaders"),
        keep_the_epoch_when_partitions_move,
        MOVED_RECORDS,
    ),
    Mutant(
        "answer in epochs that are not known",
        _names("former-leader"),
        answer_in_epochs_that_are_not_known,
        STALE_LEADERS,
    ),
    Mutant(
        "answer after the hand-over",
        _names("former-leader"),
        answer_after_the_hand_over,
        MOVED_RECORDS,
    ),
    Mutant(
        "let former members commit",
        _names("stale-commit"),
        let_former_members_commit,
        MOVED_RECORDS,
    ),
)
