"""Mutants of storage that comes back older, shorter or rotten; see ``mutants``.

Each is caught by the anomaly that names what it does: good files deleted, offsets given twice, a
log that looks empty. The side index is redundant with the checksum of manifests, so both are broken
together.

Too rare for seeds, so unit tests prove it: the position of a group is beyond what is left of a
log, and nothing else proves that (``test_leftovers``); a lost file of a journal is taken for one
that was trimmed, and it had the end of a segment (``test_journal``).
"""

from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.mutants import Mutant, _names

from opentalos.broker.admin.stored import unknown_topics
from opentalos.catalog.topics.deleted import DeletedTopic
from opentalos.log.journal import former as journal_former
from opentalos.log.manifest import end_proof, held_segments, leftovers
from opentalos.log.manifest import manifest as manifest_format
from opentalos.log.manifest.leftovers import Found, Leftovers, check_epochs
from opentalos.log.partition import jobs, opening, recovery
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.partition.writer import PartitionWriter
from opentalos.log.segment.format import SEGMENT_HEADER_BYTES
from opentalos.testing.simulation.cluster.storage_worlds import OLDER_COORDINATION
from opentalos.testing.simulation.stores.faults import WorldFaults
from opentalos.testing.simulation.world.limits import with_journal
from opentalos.testing.simulation.world.storage_worlds import OLDER, RECORD_ROT, SHORTER

TWICE, EMPTY, DELETED = "offset-given-twice", "looks-empty", "good-file-deleted"

JOURNALED = replace(OLDER, log=with_journal(OLDER.log))
# What is acknowledged stays in the journal for long.
SHORT_JOURNALS = replace(
    SHORTER,
    log=replace(
        with_journal(SHORTER.log),
        segment_bytes_max=32 << 10,
        segment_age_max_s=60.0,
        idle_seal_s=20.0,
        journal_bytes_max=1 << 20,
    ),
    world=WorldFaults(shorter=0.4, process_crash=0.4),
)
# Many logs are sealed when it happens, so that a manifest has the number where it ends.
ROTTEN_RECORDS = replace(
    RECORD_ROT,
    chaos_s=24.0,
    partitions=4,
    log=replace(RECORD_ROT.log, idle_seal_s=0.5),
    world=WorldFaults(record_rot=0.6),
)
# Most segments have a single group and no mark, so nothing in them proves that they were named.
ROLLS = replace(
    OLDER,
    think_s=0.1,
    partitions=2,
    log=replace(OLDER.log, end_mark_ms=60_000, segment_bytes_max=1 << 10),
    world=WorldFaults(older_meta=0.5),
)
# A partition that is refused is opened again at each start, and files have no mark of their own.
RESTARTS = replace(
    OLDER,
    log=replace(OLDER.log, end_mark_ms=60_000),
    world=WorldFaults(older_meta=0.2, process_crash=0.6),
)


async def _nothing(*_: Any, **__: Any) -> None:
    """Does nothing."""


# --- files that no manifest names -----------------------------------------------------------------


def orphans_are_deleted_without_judging(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leftovers, "judge", _nothing)


def no_block_is_a_witness(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Found, "registered", property(lambda self: False))


def nothing_is_set_aside(patch: pytest.MonkeyPatch) -> None:
    for module in (leftovers, held_segments):
        patch.setattr(module, "set_aside", _nothing)


def a_claim_before_the_epoch_check(patch: pytest.MonkeyPatch) -> None:
    """Each opening that fails raises the epoch, until it is that of the files."""
    real = opening._with_next_epoch

    async def claimed(context: Any, key: Any, claim: Any) -> Any:
        versioned = await opening._former(context, key)
        former = versioned.manifest
        await context.journals_known()
        present = await context.files.list(f"{key.topic_uuid}/{key.partition}")
        owned = await real(context, key, versioned, claim)
        check_epochs(key, former, [*present, *leftovers.held_segments(context, key)])
        return owned, present, opening._is_ours(context, former)

    patch.setattr(opening, "_claimed", claimed)


def a_claim_of_a_sealed_log_is_a_verdict(patch: pytest.MonkeyPatch) -> None:
    """After it the manifest is this process's own, and so seem the files beside it."""
    real = jobs.claim

    async def claim(writer: PartitionWriter) -> None:
        await real(writer)
        writer.leftovers_judged()

    patch.setattr(recovery, "claim", claim)


def an_unknown_topic_was_deleted(patch: pytest.MonkeyPatch) -> None:
    async def deletion(_: Any, uuid: str) -> DeletedTopic:
        return DeletedTopic(uuid, "", "", 0)

    patch.setattr(unknown_topics, "_deletion", deletion)


# --- journals -------------------------------------------------------------------------------------


def an_emptied_journal_file_was_being_made(patch: pytest.MonkeyPatch) -> None:
    real = journal_former._read_file

    async def read_file(files: Any, path: str, number: int, length: int, found: Any) -> Any:
        if length < SEGMENT_HEADER_BYTES:
            return None
        return await real(files, path, number, length, found)

    patch.setattr(journal_former, "_read_file", read_file)


def unnamed_journals_are_ended(patch: pytest.MonkeyPatch) -> None:
    async def forget(_: Any, former: Any, path: str) -> bool:
        former.forget(path)
        return True

    patch.setattr(held_segments.HeldSegments, "forget_if_settled", forget)


# --- where a log ends -----------------------------------------------------------------------------


def the_end_of_a_sealed_log_is_believed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(end_proof, "check_sealed", _nothing)


def a_damaged_log_ends_where_it_is_proven(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "_check_end_known", lambda *_: None)


def a_manifest_is_believed(patch: pytest.MonkeyPatch) -> None:
    """Against its checksum, and against the last segment and its side index."""
    patch.setattr(manifest_format, "checked", lambda value: value)
    for module in (end_proof, opening):
        patch.setattr(module, "check_last_segment", _nothing)


OLDER_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "orphans are deleted without judging",
        _names(DELETED, TWICE),
        orphans_are_deleted_without_judging,
        OLDER,
    ),
    Mutant("no block is a witness", _names(TWICE), no_block_is_a_witness, OLDER),
    Mutant("nothing is set aside", _names(DELETED, TWICE), nothing_is_set_aside, ROLLS),
    Mutant(
        "a claim before the epoch check",
        _names(TWICE),
        a_claim_before_the_epoch_check,
        RESTARTS,
    ),
    Mutant("an unknown topic was deleted", _names(DELETED), an_unknown_topic_was_deleted, OLDER),
    Mutant(
        "an emptied journal file was being made",
        _names(EMPTY, TWICE),
        an_emptied_journal_file_was_being_made,
        SHORT_JOURNALS,
    ),
    Mutant(
        "unnamed journals are ended without judging",
        _names(DELETED, TWICE, EMPTY),
        unnamed_journals_are_ended,
        JOURNALED,
    ),
    Mutant(
        "the end of a sealed log is believed",
        _names(EMPTY),
        the_end_of_a_sealed_log_is_believed,
        OLDER,
    ),
    Mutant(
        "a damaged log ends where it is proven",
        _names(EMPTY),
        a_damaged_log_ends_where_it_is_proven,
        OLDER,
    ),
    Mutant(
        "a manifest is believed against its checksum and the side index",
        _names(EMPTY, TWICE),
        a_manifest_is_believed,
        ROTTEN_RECORDS,
    ),
)

OLDER_CLUSTER_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a claim of a sealed log is a verdict",
        _names(DELETED, TWICE),
        a_claim_of_a_sealed_log_is_a_verdict,
        OLDER_COORDINATION,
    ),
)
