"""Mutants of metering; see ``mutants`` for what a mutant proves."""

from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.cluster_mutants import CRASHES as CLUSTER_CRASHES
from tests.simulation.mutants import CRASHES, FULL, TWICE, Mutant, _before_each_commit, _names

from opentalos.broker.quota import metering
from opentalos.broker.quota.metering import Metering
from opentalos.log.maintenance import upkeep
from opentalos.log.maintenance.retention import droppable
from opentalos.log.metering.meter import Mark, Meter
from opentalos.log.partition import jobs as partition_jobs
from opentalos.log.partition import writer as partition_writer
from opentalos.log.partition.writer import PartitionWriter
from opentalos.log.segment.writer import OpenSegment
from opentalos.model.errors import StoreUnavailable, TalosError
from opentalos.testing.simulation.stores.faults import FileFaults, MetaFaults, WorldFaults

METERED = replace(CRASHES, metered=1.0)
DUPLICATES = replace(TWICE, metered=1.0)
UNWRITABLE = replace(FULL, metered=1.0)
OPEN = replace(
    METERED, files=FileFaults(commit_slow=0.5, commit_fails=0.2, create_fails=0.3), think_s=0.1
)
JUMPS = replace(
    METERED,
    files=FileFaults(),
    meta=MetaFaults(),
    world=WorldFaults(clock_jump=1.0, clock_jump_s=3.0),
)


def meter_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    def count(writer: Any) -> None:
        group, meter = writer.group, writer.meter
        if meter is not None and group.messages:
            base, append_ms = group.next_offset - group.messages, writer.segment.state
            meter.add(base, group.messages, append_ms.last_append_ms, group.payload_bytes)

    _before_each_commit(patch, count)


def move_the_mark_without_an_ack(patch: pytest.MonkeyPatch) -> None:
    real = Metering._report

    async def report(self: Metering, waiting: list[Any]) -> None:
        put = self._put

        async def try_to_put(lines: Any) -> None:
            try:
                await put(lines)
            except TalosError:
                return

        self._put = try_to_put
        try:
            await real(self, waiting)
        finally:
            self._put = put

    patch.setattr(Metering, "_report", report)


def count_nothing_after_a_take_over(patch: pytest.MonkeyPatch) -> None:
    async def count_on(log: Any) -> bool:
        meter = log.writer.meter
        meter.restart(Mark(log.writer.next_offset, meter.mark.floor_ms), 0)
        return False

    patch.setattr(metering, "count_on", count_on)


def drop_what_is_not_metered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(partition_jobs, "_metered", lambda _, segments: segments)
    real = droppable

    def any_droppable(manifest: Any, settings: Any, retained: Any) -> int:
        return real(manifest, settings, retained._replace(metered_offset=-1))

    patch.setattr(upkeep, "droppable", any_droppable)
    _refuse_every_second_put(patch)


def _refuse_every_second_put(patch: pytest.MonkeyPatch) -> None:
    """Not a mutant of its own: metering falls behind."""
    real = Metering._report
    turns = iter(range(1 << 30))

    async def report(self: Metering, waiting: list[Any]) -> None:
        if next(turns) % 8:
            raise StoreUnavailable("not now")
        await real(self, waiting)

    patch.setattr(Metering, "_report", report)


def store_no_mark(patch: pytest.MonkeyPatch) -> None:
    for module in (partition_jobs, partition_writer):
        patch.setattr(module, "marked", lambda _, manifest: manifest)


def end_a_minute_although_a_commit_is_open(patch: pytest.MonkeyPatch) -> None:
    def settle(self: Metering, log: Any) -> None:
        log.writer.meter.settle(self._context.clock.wall_ms(), quiet=True)

    patch.setattr(Metering, "_settle", settle)


def meter_dropped_duplicates(patch: pytest.MonkeyPatch) -> None:
    real = OpenSegment._admit

    def admit(self: OpenSegment, group: Any, queued: Any, committed: int) -> bool:
        taken = real(self, group, queued, committed)
        if not taken:
            group.payload_bytes += len(queued[0].payload)
        return taken

    patch.setattr(OpenSegment, "_admit", admit)


def a_minute_that_has_not_ended_moves_the_mark(patch: pytest.MonkeyPatch) -> None:
    def settle(self: Meter, now_ms: int, *, quiet: bool) -> None:
        found = self.found
        while found and found[0].reported_offset == found[0].next_offset:
            self.mark = Mark(found[0].next_offset, self.mark.floor_ms)
            del found[0]

    patch.setattr(Meter, "settle", settle)


def append_to_a_minute_that_the_clock_ended(patch: pytest.MonkeyPatch) -> None:
    real = Meter.settle

    def settle(self: Meter, now_ms: int, *, quiet: bool) -> None:
        real(self, now_ms, quiet=quiet)
        self.mark = self.mark._replace(floor_ms=0)

    patch.setattr(Meter, "settle", settle)


def forget_the_reported_part_of_a_minute(patch: pytest.MonkeyPatch) -> None:
    """An event has only what came since the last one."""
    real = metering._due_of

    def due_of(log: Any, topic: Any) -> list[Any]:
        found = []
        for due in real(log, topic):
            first = due.minute.reported_offset
            event = due.event._replace(first_offset=first, records=due.event.next_offset - first)
            found.append(due._replace(event=event))
        return found

    patch.setattr(metering, "_due_of", due_of)


def count_headers_as_well(patch: pytest.MonkeyPatch) -> None:
    real = PartitionWriter._committed

    def committed(self: Any, segment: Any, group: Any) -> None:
        group.payload_bytes = group.bytes
        real(self, segment, group)

    patch.setattr(PartitionWriter, "_committed", committed)


def _drift(name: str, apply: Any, config: Any = METERED) -> Mutant:
    return Mutant(name, _names("meter-drift"), apply, config)


METERING_MUTANTS = (
    _drift("meter before the commit", meter_before_the_commit, OPEN),
    _drift("move the mark without an ack", move_the_mark_without_an_ack, UNWRITABLE),
    _drift("count nothing after a take-over", count_nothing_after_a_take_over),
    _drift("drop what is not metered", drop_what_is_not_metered),
    _drift("end a minute although a commit is open", end_a_minute_although_a_commit_is_open, OPEN),
    _drift("meter dropped duplicates", meter_dropped_duplicates, DUPLICATES),
    _drift(
        "a minute that has not ended moves the mark", a_minute_that_has_not_ended_moves_the_mark
    ),
    _drift(
        "append to a minute that the clock ended", append_to_a_minute_that_the_clock_ended, JUMPS
    ),
    _drift("forget the reported part of a minute", forget_the_reported_part_of_a_minute),
    _drift("count headers as well", count_headers_as_well),
)

TAKE_OVERS = replace(CLUSTER_CRASHES, metered=1.0)
METERING_CLUSTER_MUTANTS = (
    _drift("count nothing after a take-over", count_nothing_after_a_take_over, TAKE_OVERS),
    _drift("store no mark", store_no_mark, TAKE_OVERS),
    _drift("drop what is not metered", drop_what_is_not_metered, TAKE_OVERS),
)
