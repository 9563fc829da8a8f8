"""Mutants of storage that decays, hangs, lies about time or runs out; see ``mutants``.

Each is caught in the storage world of its trouble.
"""

from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.mutants import CRASHES, Mutant, overwrite_the_manifest_after_an_unknown
from tests.simulation.shared_mutants import SHARED_MUTANTS

from opentalos.log import log_store
from opentalos.log.context import LogContext
from opentalos.log.maintenance import merge, upkeep
from opentalos.log.partition import decisions, jobs, log_end, writer
from opentalos.log.partition.decisions import Failures
from opentalos.log.partition.queue import PutQueue
from opentalos.log.partition.state import State
from opentalos.log.partition.watch import PartitionWatch
from opentalos.log.scheduling.lanes import CommitLanes
from opentalos.log.segment import damage
from opentalos.log.segment import scan as segment_scan
from opentalos.log.trusted_time import TrustedTime
from opentalos.model.errors import ExcessivePending, TalosError
from opentalos.model.message import Durability
from opentalos.testing.simulation.stores.disk import SimulatedDisk
from opentalos.testing.simulation.stores.faults import FileFaults, MetaFaults, WorldFaults
from opentalos.testing.simulation.stores.faulty_files import FaultyAppendFile
from opentalos.testing.simulation.world.limits import LOG_LIMITS
from opentalos.testing.simulation.world.storage_worlds import (
    BOUNDS,
    CLOCKS,
    DURABILITY,
    EXHAUSTION,
    HANGING,
    LATE,
    POISON,
    ROT,
)
from opentalos.testing.simulation.world.world import ZEROS

ZEROED = replace(
    ROT, payloads=(ZEROS,), world=WorldFaults(rot_anywhere=0.8, process_crash=0.4), chaos_s=15.0
)
CHANGED = replace(DURABILITY, world=WorldFaults(power_loss=0.8), think_s=0.1, chaos_s=15.0)
ROTTEN = replace(ROT, world=WorldFaults(rot_anywhere=0.8, process_crash=0.4), chaos_s=15.0)
FOREIGN = replace(EXHAUSTION, files=FileFaults(raises=0.12, foreign=0.8), chaos_s=15.0)
POISONED = replace(POISON, chaos_s=12.0)
HANGS = replace(HANGING, chaos_s=12.0)
ROLLS = replace(
    BOUNDS,
    bounds=None,
    meta=MetaFaults(unknown=0.15),
    files=FileFaults(),
    world=WorldFaults(process_crash=0.3),
)
# Segments are sealed while they are small, and the retention spans many of them.
MERGES = replace(
    CRASHES,
    log=replace(
        LOG_LIMITS,
        segment_bytes_max=8 << 10,
        segment_age_max_s=0.8,
        idle_seal_s=0.2,
        retention_interval_s=0.2,
        delete_grace_s=0.5,
    ),
)


# --- durability and rot -----------------------------------------------------------------------


def a_changed_durability_waits_for_the_next_segment(patch: pytest.MonkeyPatch) -> None:
    for module in (decisions, jobs, log_store):
        patch.setattr(module, "is_outdated", lambda partition: False)


def durability_from_the_setting(patch: pytest.MonkeyPatch) -> None:
    """A change seals the segment at once, so that guard is broken together with the header's."""
    a_changed_durability_waits_for_the_next_segment(patch)

    def may_be_cut(self: log_end.EndRecovery) -> bool:
        return self._topic is Durability.FLUSHED

    patch.setattr(log_end.EndRecovery, "_may_be_cut", may_be_cut)


def first_commit_not_synced(patch: pytest.MonkeyPatch) -> None:
    """The tail of a synced segment is copied into a flushed one, and only flushed."""
    real, real_sync = FaultyAppendFile._commit, SimulatedDisk.sync
    committing: list[Any] = []

    async def commit(self: Any, data: bytes, durability: Durability) -> None:
        committing.append(self._file)
        try:
            await real(self, data, durability)
        finally:
            committing.remove(self._file)

    def sync(self: SimulatedDisk, file: Any, *, to_platter: bool, fails: bool = False) -> None:
        if file in committing and file.durability is Durability.FLUSHED:
            to_platter = False
        real_sync(self, file, to_platter=to_platter, fails=fails)

    patch.setattr(FaultyAppendFile, "_commit", commit)
    patch.setattr(SimulatedDisk, "sync", sync)


def zeros_are_lost_pages(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(damage, "_only_flaw", lambda *_: None)


def every_bad_block_is_a_torn_tail(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segment_scan, "left_by_crash", lambda *_, **__: True)


# --- clocks -----------------------------------------------------------------------------------


def retention_trusts_the_wall_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TrustedTime, "retention_ms", lambda self: self._wall_ms())
    patch.setattr(TrustedTime, "counted_ms", lambda *_: None)


# --- failures ---------------------------------------------------------------------------------


def an_opening_clears_the_failures(patch: pytest.MonkeyPatch) -> None:
    real = Failures.note

    def note(self: Failures, *what: Any) -> None:
        self.count, self.suspects = 0, 0
        real(self, *what)

    patch.setattr(Failures, "note", note)


def no_block_is_isolated(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Failures, "returned", lambda self, blocks: False)


def a_refused_write_is_a_full_server(patch: pytest.MonkeyPatch) -> None:
    def note_full(self: LogContext) -> None:
        self.space_left, self.full = 0, True

    patch.setattr(LogContext, "note_full", note_full)


def only_port_errors_end_a_job_well(patch: pytest.MonkeyPatch) -> None:
    async def run_job(self: upkeep.Upkeep, writer: Any, job: Any) -> None:
        try:
            await writer.run(job)
        except TalosError:
            return
        finally:
            self._has_job.pop(writer, None)

    patch.setattr(upkeep.Upkeep, "_run_job", run_job)


# --- tenants ----------------------------------------------------------------------------------


def no_share_for_each_tenant(patch: pytest.MonkeyPatch) -> None:
    def check_room(self: PutQueue, size: int, free_bytes: int) -> None:
        if self.pending_bytes + size > self.context.limits.pending_bytes_max or free_bytes < 0:
            raise ExcessivePending("no room")

    patch.setattr(PutQueue, "_check_room", check_room)


def stalled_lanes_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitLanes, "_arm", lambda self, delay_s: None)


def nobody_watches_the_deadline(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionWatch, "_answer_all", lambda self, now_s: None)


# --- merges -----------------------------------------------------------------------------------


def a_merge_deletes_before_the_manifest_says_so(patch: pytest.MonkeyPatch) -> None:
    real = merge._Replacement.run

    async def run(self: Any) -> None:
        for segment in self._run:
            await self._writer.context.files.delete(segment.path(self._writer.key))
        await real(self)

    patch.setattr(merge._Replacement, "run", run)
    patch.setattr(merge, "SPAN_SHARE", 1)


# --- rolls and late writes --------------------------------------------------------------------


def acknowledge_a_roll_before_the_manifest(patch: pytest.MonkeyPatch) -> None:
    real = writer.marked

    def marked(self: Any, manifest: Any) -> Any:
        group = self.group
        if self.state is State.ROLLING and group is not None:
            for _, waiter, _, base in group.entries:
                waiter(base, None)
            group.entries = [(block, _nobody, size, base) for block, _, size, base in group.entries]
        return real(self, manifest)

    patch.setattr(writer, "marked", marked)


def _nobody(_: int, __: TalosError | None) -> None:
    """The waiter was called before."""


def _names(*names: str) -> frozenset[str]:
    return frozenset(names)


STORAGE_MUTANTS = (
    Mutant(
        "a changed durability waits for the next segment",
        _names("lost-write", "silent-cut"),
        a_changed_durability_waits_for_the_next_segment,
        CHANGED,
    ),
    Mutant(
        "durability from the topic's setting",
        _names("stuck-partition", "unreadable"),
        durability_from_the_setting,
        CHANGED,
    ),
    Mutant(
        "the first commit of a file is not synced",
        _names("stuck-partition", "lost-write", "silent-cut"),
        first_commit_not_synced,
        DURABILITY,
    ),
    Mutant(
        "zeros are taken for lost pages",
        _names("silent-cut", "lost-write"),
        zeros_are_lost_pages,
        ZEROED,
    ),
    Mutant(
        "every bad block is a torn tail",
        _names("silent-cut"),
        every_bad_block_is_a_torn_tail,
        ROTTEN,
    ),
    Mutant(
        "retention trusts the wall clock",
        _names("premature-deletion"),
        retention_trusts_the_wall_clock,
        CLOCKS,
    ),
    Mutant(
        "an opening clears the failures",
        _names("livelock", "never-answered"),
        an_opening_clears_the_failures,
        POISONED,
    ),
    Mutant(
        "no block is isolated",
        _names("refused-for-another"),
        no_block_is_isolated,
        POISONED,
    ),
    Mutant(
        "a merge deletes before the manifest says so",
        _names("unreadable", "verify-fault", "lost-write"),
        a_merge_deletes_before_the_manifest_says_so,
        MERGES,
    ),
    Mutant(
        "a refused write is a full server",
        _names("unfair-tenant"),
        a_refused_write_is_a_full_server,
        POISONED,
    ),
    Mutant(
        "only port errors end a job well",
        _names("unhandled-error"),
        only_port_errors_end_a_job_well,
        FOREIGN,
    ),
    Mutant("no share for each tenant", _names("unfair-tenant"), no_share_for_each_tenant, HANGS),
    Mutant(
        "nobody watches the deadline",
        _names("never-answered"),
        nobody_watches_the_deadline,
        HANGS,
    ),
    Mutant("stalled lanes stay", _names("unfair-tenant"), stalled_lanes_stay, HANGS),
    Mutant(
        "a late write is overwritten",
        _names("two-writers", "lost-write", "inconsistent-offsets", "verify-fault"),
        overwrite_the_manifest_after_an_unknown,
        LATE,
    ),
    Mutant(
        "a roll is acknowledged before the manifest names its file",
        _names("lost-write", "inconsistent-offsets", "next-offset-went-back", "silent-cut"),
        acknowledge_a_roll_before_the_manifest,
        ROLLS,
    ),
    *SHARED_MUTANTS,
)
