"""Mutants of the reports of what is kept; see ``mutants`` for what a mutant proves."""

from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.metering_mutants import METERED
from tests.simulation.mutants import RIVALS, Mutant, _names

from opentalos.broker.quota.kept import KeptReports
from opentalos.log.metering.kept import Kept
from opentalos.log.partition import jobs as partition_jobs
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.partition.writer import PartitionWriter
from opentalos.testing.simulation.world.storage_worlds import RECORDS

KEPT = replace(METERED, storage=True)
# Beginnings of logs are deleted, and servers crash before what they kept is reported.
DELETED = replace(RECORDS, storage=True, chaos_s=12.0)


def drop_without_a_report(patch: pytest.MonkeyPatch) -> None:
    """What a crash before the next report loses is lost for ever."""
    patch.setattr(partition_jobs, "_kept_is_reported", lambda writer, start: True)


def drop_again_by_an_old_report(patch: pytest.MonkeyPatch) -> None:
    """One report permits all drops."""
    patch.setattr(Kept, "permits", lambda self, start: self._until_ms > 0)


def drop_after_a_report_without_an_ack(patch: pytest.MonkeyPatch) -> None:
    """Storage refuses three of four reports of what is kept, and nobody asks whether it did."""
    real = KeptReports.write
    turns = iter(range(1 << 30))

    async def write(self: KeptReports, due: Any) -> bool:
        put = self._put

        async def seldom_put(lines: Any) -> None:
            if next(turns) % 4 == 3:
                await put(lines)

        self._put = seldom_put
        try:
            return await real(self, due)
        finally:
            self._put = put

    patch.setattr(KeptReports, "write", write)


def drop_what_is_deleted_without_a_report(patch: pytest.MonkeyPatch) -> None:
    """Nobody reads it any more, but it was kept until now."""
    real = partition_jobs._kept_is_reported

    def is_reported(writer: PartitionWriter, start: int) -> bool:
        return writer.versioned.manifest.floor > start or real(writer, start)

    patch.setattr(partition_jobs, "_kept_is_reported", is_reported)


def report_what_a_former_owner_remembers(patch: pytest.MonkeyPatch) -> None:
    async def start(self: PartitionLog) -> int:
        return self.writer.versioned.manifest.start

    patch.setattr(PartitionLog, "stored_start", start)


def report_a_minute_twice_as_two(patch: pytest.MonkeyPatch) -> None:
    """A report that is made again is of a later minute, each time."""
    real = KeptReports._event

    async def event(self: KeptReports, log: Any, topic: Any, until_ms: int) -> Any:
        found = await real(self, log, topic, until_ms)
        if found is None:
            return None
        ahead = getattr(self, "ahead", {})
        self.ahead = ahead  # type: ignore[attr-defined]
        ahead[log.key] = ahead.get(log.key, 0) + self._context.config.minute_ms
        return found._replace(minute_ms=found.minute_ms + ahead[log.key])

    patch.setattr(KeptReports, "_event", event)


def _drift(name: str, apply: Any, config: Any = KEPT) -> Mutant:
    return Mutant(name, _names("kept-drift"), apply, config)


KEPT_MUTANTS = (
    _drift("drop without a report", drop_without_a_report),
    _drift("drop what is deleted without a report", drop_what_is_deleted_without_a_report, DELETED),
    _drift("drop again by an old report", drop_again_by_an_old_report),
    _drift("drop after a report without an ack", drop_after_a_report_without_an_ack),
    _drift(
        "report what a former owner remembers",
        report_what_a_former_owner_remembers,
        replace(RIVALS, metered=1.0, storage=True),
    ),
    _drift("report a minute twice as two", report_a_minute_twice_as_two),
)
