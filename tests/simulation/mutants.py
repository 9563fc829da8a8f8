"""Mutants: the real code with one promise broken on purpose, and what must be said about each.

A mutant proves the simulation: it counts only if several seeds catch it under one of its names and
the unmutated code passes those same seeds. Each patches one small function.

Equivalent mutants, which no client can distinguish from the real code:

- An unknown compare-and-set of the manifest is repeated identically instead of being resolved by
  reading. If it had been applied, the repeat is a conflict, the partition opens under the next
  epoch and finds all it had written: slower, not wrong.
- ``recover`` may fence without syncing first. The tail above C is copied and synced in the new
  segment anyway, and below C everything was synced before it was acknowledged.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from opentalos.catalog.access.authorize import Authorizer
from opentalos.group.coordinator import Coordinator
from opentalos.group.writes import Checkpoint
from opentalos.log.maintenance import upkeep
from opentalos.log.manifest.store import ManifestStore, VersionedManifest
from opentalos.log.partition import jobs as partition_jobs
from opentalos.log.partition import log_end, opening
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.partition.queue import PutQueue
from opentalos.log.partition.writer import PartitionWriter
from opentalos.log.segment import producers, reader
from opentalos.log.segment import scan as segment_scan
from opentalos.log.segment import writer as segment_writer
from opentalos.log.segment.format import block_fault, index_path
from opentalos.log.segment.producers import ProducerTable
from opentalos.log.segment.writer import OpenSegment
from opentalos.model.errors import OutcomeUnknown, PartitionNotServing, TalosError
from opentalos.model.message import ProducerStamp
from opentalos.testing.simulation.stores.faults import (
    FileFaults,
    MetaFaults,
    RowFaults,
    WorldFaults,
)
from opentalos.testing.simulation.stores.faulty_files import FaultyFileStore
from opentalos.testing.simulation.world.world import WorldConfig

Patch = Callable[[pytest.MonkeyPatch], None]

CHAOS_S = 12.0
CRASHES = WorldConfig(
    chaos_s=CHAOS_S,
    metered=0.0,
    tabled=0.0,
    files=FileFaults(commit_fails=0.06, sync_lies=0.5, commit_slow=0.05),
    meta=MetaFaults(unknown=0.05, unavailable=0.02),
    rows=RowFaults(unknown=0.05),
    world=WorldFaults(process_crash=0.15, power_loss=0.2),
)
RIVALS = replace(
    CRASHES, files=FileFaults(commit_slow=0.05), world=WorldFaults(usurped=0.4, power_loss=0.05)
)
ROT = replace(CRASHES, world=WorldFaults(rot=0.4, process_crash=0.2, power_loss=0.1, stop=0.1))
SLOW = replace(CRASHES, files=FileFaults(commit_slow=0.5), world=WorldFaults(power_loss=0.4))
SHAKY = FileFaults(commit_fails=0.3, commit_slow=0.3)
TORN = replace(CRASHES, files=SHAKY, world=WorldFaults(power_loss=0.6))
TWICE = replace(CRASHES, put_twice=0.5)
STUCK = FileFaults(commit_fails=0.1, create_fails=0.4, recover_stuck=0.4)
FULL = replace(CRASHES, files=STUCK, world=WorldFaults(disk_full=0.4))
CALM = replace(CRASHES, files=FileFaults(), meta=MetaFaults(), world=WorldFaults())


@dataclass(frozen=True)
class Mutant:
    """One broken promise. ``names``: the anomalies that may reveal it."""

    name: str
    names: frozenset[str]
    apply: Patch
    config: WorldConfig = CRASHES


class _EqualToAll(int):
    """A checksum that equals every other."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = int.__hash__


def _ignoring_crc(real: Callable[[bytes, int, int], str]) -> Callable[[bytes, int, int], str]:
    def fault(raw: bytes, start: int, seed: int) -> str:
        text = real(raw, start, seed)
        return "" if "CRC" in text else text

    return fault


# --- durability -----------------------------------------------------------------------------------


class _FirstThen:
    """Stands for a segment's file: does something before each commit."""

    def __init__(self, file: Any, first: Callable[[], None]) -> None:
        self._file, self._first = file, first

    async def commit(self, chunks: Any) -> int:
        self._first()
        length: int = await self._file.commit(chunks)
        return length

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _before_each_commit(patch: pytest.MonkeyPatch, first: Callable[[Any], None]) -> None:
    real = PartitionWriter._commit

    async def commit(self: Any, segment: Any, in_job: bool) -> None:
        file = segment.file
        segment.file = _FirstThen(file, lambda: first(self))
        try:
            await real(self, segment, in_job)
        finally:
            segment.file = file

    patch.setattr(PartitionWriter, "_commit", commit)


def ack_before_commit(patch: pytest.MonkeyPatch) -> None:
    def acknowledge(writer: Any) -> None:
        group = writer.group
        for _, waiter, _, base in group.entries:
            waiter(base, None)
        group.entries = [(block, _nobody, size, base) for block, _, size, base in group.entries]

    _before_each_commit(patch, acknowledge)


def _nobody(_: int, __: TalosError | None) -> None:
    """The waiter was called before."""


def ack_before_manifest(patch: pytest.MonkeyPatch) -> None:
    real = ManifestStore.change

    async def change(
        self: ManifestStore, key: Any, versioned: VersionedManifest, manifest: Any
    ) -> VersionedManifest:
        async def late() -> None:
            try:
                await real(self, key, versioned, manifest)
            except TalosError:
                return

        asyncio.get_running_loop().call_later(
            0.3, lambda: asyncio.get_running_loop().create_task(late())
        )
        return VersionedManifest(manifest, versioned.version + 1)

    patch.setattr(ManifestStore, "change", change)


def answer_ok_though_the_commit_failed(patch: pytest.MonkeyPatch) -> None:
    def recovered(self: Any, next_offset: int) -> None:
        return

    patch.setattr(PartitionWriter, "recovered", recovered)


def answer_not_done_though_unknown(patch: pytest.MonkeyPatch) -> None:
    real = PutQueue.settle_group

    def settle_group(self: PutQueue, error: TalosError) -> None:
        real(self, PartitionNotServing(str(error)))

    patch.setattr(PutQueue, "settle_group", settle_group)


def append_recovered_blocks_again(patch: pytest.MonkeyPatch) -> None:
    def found(entries: list[Any], next_offset: int) -> tuple[list[Any], list[Any]]:
        return [], entries

    patch.setattr(segment_writer, "_found", found)


def serve_beyond_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    def show(writer: Any) -> None:
        group = writer.group
        writer.next_offset = group.next_offset
        writer.tail.add(group.stored, group.stored_bytes)
        group.stored, group.stored_bytes = [], 0
        writer.arrivals.wake()

    def recovered(self: Any, next_offset: int) -> None:
        self.next_offset = min(self.next_offset, next_offset)
        real(self, next_offset)

    real = PartitionWriter.recovered
    _before_each_commit(patch, show)
    patch.setattr(PartitionWriter, "recovered", recovered)


def lose_a_waiter(patch: pytest.MonkeyPatch) -> None:
    def refuse_queue(self: PutQueue, error: TalosError) -> None:
        self.release(sum(size for _, _, size in self.queue))
        self.queue.clear()

    patch.setattr(PutQueue, "refuse_queue", refuse_queue)


# --- opening --------------------------------------------------------------------------------------


def skip_crc_at_opening(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(segment_scan, "_crc32c", lambda *_: _EqualToAll())
    patch.setattr(segment_scan, "block_fault", _ignoring_crc(block_fault))
    patch.setattr(log_end, "block_fault", _ignoring_crc(block_fault))


def skip_crc_at_reading(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reader, "_crc32c", lambda *_: _EqualToAll())
    patch.setattr(reader, "block_fault", _ignoring_crc(block_fault))


def cut_below_what_was_acknowledged(patch: pytest.MonkeyPatch) -> None:
    async def check_damage(*_: object) -> None:
        return

    patch.setattr(log_end.EndRecovery, "_check_damage", check_damage)


def reuse_offsets_after_reopening(patch: pytest.MonkeyPatch) -> None:
    real = segment_writer.create_segment

    async def create_segment(context: Any, key: Any, durability: Any, start: Any) -> Any:
        segment = await real(context, key, durability, start)
        segment.view.next_offset = start.base_offset
        return segment

    patch.setattr(opening, "create_segment", create_segment)


def leave_the_tail_behind(patch: pytest.MonkeyPatch) -> None:
    real = segment_writer.create_segment

    async def create_segment(context: Any, key: Any, durability: Any, start: Any) -> Any:
        return await real(context, key, durability, start._replace(tail=[]))

    patch.setattr(opening, "create_segment", create_segment)


def forget_the_producer_table(patch: pytest.MonkeyPatch) -> None:
    _take_whatever_is_unknown(patch)
    real = segment_writer.create_segment

    async def create_segment(context: Any, key: Any, durability: Any, start: Any) -> Any:
        segment = await real(context, key, durability, start)
        segment.state.producers = ProducerTable()
        segment.state.producers.forgotten = True
        return segment

    patch.setattr(opening, "create_segment", create_segment)


def judge_a_group_by_the_table_before_it(patch: pytest.MonkeyPatch) -> None:
    """A repetition in the group of its first attempt is not seen."""
    real = OpenSegment.fill

    def fill(self: OpenSegment, group: Any, *rest: Any, **options: Any) -> None:
        table = self.state.producers
        noted: list[tuple[Any, ...]] = []
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(ProducerTable, "note", lambda _, *what: noted.append(what))
            real(self, group, *rest, **options)
        for what in noted:
            table.note(*what)

    patch.setattr(OpenSegment, "fill", fill)


def keep_the_table_of_a_failed_commit(patch: pytest.MonkeyPatch) -> None:
    """What was noted before the commit stays, so a repetition is taken for stored."""
    real = segment_writer.create_segment
    tables: dict[Any, ProducerTable] = {}

    async def create_segment(context: Any, key: Any, durability: Any, start: Any) -> Any:
        segment = await real(context, key, durability, start)
        segment.state.producers = tables.setdefault(key, segment.state.producers)
        return segment

    patch.setattr(opening, "create_segment", create_segment)


def take_repetitions_of_forgotten_producers(patch: pytest.MonkeyPatch) -> None:
    _take_whatever_is_unknown(patch)
    patch.setattr(producers, "PRODUCERS_MAX", 1)


def _take_whatever_is_unknown(patch: pytest.MonkeyPatch) -> None:
    real = ProducerTable.check

    def check(self: ProducerTable, principal: int, stamp: ProducerStamp, *block: int) -> Any:
        forgot = self.forgotten or self.share(principal).forgotten
        unknown = forgot and self.find(principal, stamp.producer_id) is None
        return None if unknown else real(self, principal, stamp, *block)

    patch.setattr(ProducerTable, "check", check)


def no_fence_at_recover(patch: pytest.MonkeyPatch) -> None:
    async def recover(self: FaultyFileStore, path: str, *, deadline_s: float) -> int:
        return await self.disk.after(0.001, lambda: len(self._file(path).content))

    patch.setattr(FaultyFileStore, "recover", recover)


def overwrite_the_manifest_after_an_unknown(patch: pytest.MonkeyPatch) -> None:
    real = ManifestStore.change

    async def change(
        self: ManifestStore, key: Any, versioned: VersionedManifest, manifest: Any
    ) -> VersionedManifest:
        try:
            return await real(self, key, versioned, manifest)
        except (OutcomeUnknown, PartitionNotServing):
            now = await self.load(key)
            return await real(self, key, VersionedManifest(manifest, now.version), manifest)

    patch.setattr(ManifestStore, "change", change)


# --- offsets, retention, groups, access -----------------------------------------------------------


def no_confirmation_of_offsets(patch: pytest.MonkeyPatch) -> None:
    async def confirm(self: PartitionLog) -> None:
        return

    patch.setattr(PartitionLog, "_confirm", confirm)


def delete_files_before_the_manifest(patch: pytest.MonkeyPatch) -> None:
    real = partition_jobs.drop

    async def drop(writer: Any, count: int, last: Any) -> None:
        for segment in writer.versioned.manifest.sealed[:count]:
            path = segment.path(writer.key)
            await writer.context.files.delete(path)
            await writer.context.files.delete(index_path(path))
        await real(writer, count, last)

    patch.setattr(upkeep, "drop", drop)


def commit_without_the_lease(patch: pytest.MonkeyPatch) -> None:
    real = Checkpoint.decide

    def decide(self: Checkpoint) -> Any:
        self.worker = self.part.holder(self.now())
        return real(self)

    patch.setattr(Checkpoint, "decide", decide)


def commit_beyond_the_end(patch: pytest.MonkeyPatch) -> None:
    real = Checkpoint.decide

    def decide(self: Checkpoint) -> Any:
        self.next_offset = max(self.next_offset, self.offset + 1)
        return real(self)

    patch.setattr(Checkpoint, "decide", decide)


def answer_a_checkpoint_before_its_row(patch: pytest.MonkeyPatch) -> None:
    real = Coordinator.commit

    async def commit(self: Coordinator, user: Any, asked: Any) -> bool:
        async def late() -> None:
            await asyncio.sleep(0.5)
            try:
                await real(self, user, asked)
            except TalosError:
                return

        group = await self.directory.find(user)
        if group is None or asked.partition not in group.partitions:
            return False
        part = group.partitions[asked.partition]
        if part.holder(asyncio.get_running_loop().time()) != asked.worker:
            return False
        if asked.offset >= asked.next_offset:
            return False
        asyncio.get_running_loop().create_task(late())
        return True

    patch.setattr(Coordinator, "commit", commit)


def allow_everybody_everything(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Authorizer, "authorize", lambda *_, **__: None)


def _names(*names: str) -> frozenset[str]:
    return frozenset(names)


MUTANTS = (
    Mutant("ack before commit", _names("lost-write"), ack_before_commit),
    Mutant("ack before the manifest CAS", _names("lost-write"), ack_before_manifest),
    Mutant(
        "answer ok though the commit failed",
        _names("lost-write"),
        answer_ok_though_the_commit_failed,
    ),
    Mutant(
        "answer 'not done' though unknown",
        _names("aborted-read", "phantom"),
        answer_not_done_though_unknown,
        RIVALS,
    ),
    Mutant("append recovered blocks again", _names("duplicate"), append_recovered_blocks_again),
    Mutant(
        "serve beyond the high watermark",
        _names("dirty-read"),
        serve_beyond_the_high_watermark,
        SLOW,
    ),
    Mutant("lose a waiter", _names("unanswered"), lose_a_waiter, FULL),
    Mutant(
        "skip CRC at opening",
        _names("corrupt-payload", "inconsistent-offsets", "phantom"),
        skip_crc_at_opening,
        TORN,
    ),
    Mutant("skip CRC at reading", _names("corrupt-payload"), skip_crc_at_reading, ROT),
    Mutant(
        "cut below what was acknowledged",
        _names("lost-write", "inconsistent-offsets"),
        cut_below_what_was_acknowledged,
        ROT,
    ),
    Mutant(
        "reuse offsets after reopening",
        _names("inconsistent-offsets"),
        reuse_offsets_after_reopening,
    ),
    Mutant("leave the tail behind", _names("lost-write"), leave_the_tail_behind),
    Mutant("forget the producer table", _names("duplicate"), forget_the_producer_table),
    Mutant(
        "judge a group by the table before it",
        _names("duplicate"),
        judge_a_group_by_the_table_before_it,
        TWICE,
    ),
    Mutant(
        "keep the table of a failed commit",
        _names("lost-write"),
        keep_the_table_of_a_failed_commit,
    ),
    Mutant(
        "take repetitions of forgotten producers",
        _names("duplicate"),
        take_repetitions_of_forgotten_producers,
        TWICE,
    ),
    Mutant("no fence at recover", _names("two-writers"), no_fence_at_recover, RIVALS),
    Mutant(
        "overwrite the manifest after an unknown CAS",
        _names("two-writers", "lost-write", "inconsistent-offsets"),
        overwrite_the_manifest_after_an_unknown,
        RIVALS,
    ),
    Mutant(
        "out of range without confirmation",
        _names("false-out-of-range", "next-offset-went-back", "start-offset-went-back"),
        no_confirmation_of_offsets,
        RIVALS,
    ),
    Mutant(
        "retention: files before the manifest",
        _names("unreadable", "stuck-partition"),
        delete_files_before_the_manifest,
    ),
    Mutant("commit without the lease", _names("stale-commit"), commit_without_the_lease, CALM),
    Mutant("commit beyond the end", _names("commit-beyond-end"), commit_beyond_the_end, CALM),
    Mutant(
        "answer a checkpoint before its row",
        _names("lost-checkpoint"),
        answer_a_checkpoint_before_its_row,
    ),
    Mutant("allow everybody everything", _names("tenant-leak"), allow_everybody_everything, CALM),
)
