"""Alarms: what an operator should look at now, from the figures of one server; pure.

Those that need no history, under the names of deploy/prometheus/alerts.yml without their prefix.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from opentalos.broker.figures.values import ClusterFigures, Figures

STREAM_LATE_MS: Final = 60_000  # as in the rules
METERING_LATE_S: Final = 600.0


class Severity(StrEnum):
    """As the rules have it."""

    CRITICAL = "critical"
    WARNING = "warning"


class Alarm(NamedTuple):
    """What is wrong at a server, in a sentence with its numbers."""

    name: str
    severity: str
    text: str


def alarms_of(figures: Figures) -> list[Alarm]:
    """Critical ones first."""
    found = [*_storage(figures), *_use(figures), *_cluster(figures.cluster)]
    return sorted(found, key=lambda alarm: alarm.severity != Severity.CRITICAL)


def _storage(figures: Figures) -> Iterator[Alarm]:
    log = figures.log_now
    if log.full:
        left = log.space_left_bytes
        text = f"the storage is full: puts are rejected, {left:,} bytes are free"
        yield Alarm("StorageFull", Severity.CRITICAL, text)
    if log.damaged_segments:
        text = f"{log.damaged_segments:,} segments are damaged; the server's log names them"
        yield Alarm("CorruptLog", Severity.CRITICAL, text)
    if log.damaged_partitions:
        yield Alarm("CorruptLog", Severity.CRITICAL, _damaged(figures))
    if figures.unknown_topics:
        text = (
            "stored topics that the catalogue does not know, or knows with fewer partitions: "
            f"{figures.unknown_topics:,}; the server's log names them"
        )
        yield Alarm("UnknownTopic", Severity.CRITICAL, text)
    counted = figures.log
    cut, aside = counted.tails_cut + counted.journal.tails_cut, counted.set_aside
    if cut or aside:
        text = (
            "since its start the server left out what nothing proves to be acknowledged, as a "
            f"crash leaves it: {cut:,} incomplete groups, {aside:,} files, which are set aside; "
            "its log names them"
        )
        yield Alarm("LogTailCut", Severity.WARNING, text)
    if log.journal.full:
        text = "a journal is not trimmed as fast as it grows: segments cannot be written out"
        yield Alarm("JournalFull", Severity.WARNING, text)
    if log.lanes_stalled:
        text = f"{log.lanes_stalled:,} commits hang: look at the disk or the DataNode"
        yield Alarm("CommitsStall", Severity.WARNING, text)
    if log.clock_doubt:
        yield Alarm(
            "ClockInDoubt", Severity.WARNING, f"nothing is deleted by age: {log.clock_doubt}"
        )


def _damaged(figures: Figures) -> str:
    log, names = figures.log_now, figures.topic_names
    named = [
        f"{names.get(key.topic_uuid, key.topic_uuid)}/{key.partition} ({reason})"
        for key, reason in log.damaged
    ]
    more = log.damaged_partitions - len(named)
    text = (
        "partitions that refuse puts, since their logs are damaged: "
        f"{log.damaged_partitions:,}: {', '.join(named)}"
    )
    return f"{text} and {more:,} more" if more else text


def _use(figures: Figures) -> Iterator[Alarm]:
    metering = figures.metering
    if metering.oldest_unmetered_s > METERING_LATE_S:
        text = (
            f"usage events of {metering.partitions_unmetered:,} partitions are late, the oldest by "
            f"{metering.oldest_unmetered_s:,.0f} s"
        )
        yield Alarm("MeteringLate", Severity.WARNING, text)
    if figures.hot_partitions:
        text = f"in {figures.hot_partitions:,} topics one partition took most messages"
        yield Alarm("HotPartition", Severity.WARNING, text)
    if figures.stopped_streams:
        text = f"{figures.stopped_streams:,} streams of tables stopped with missing changes"
        yield Alarm("StreamGap", Severity.CRITICAL, text)
    if figures.shards.oldest_pending_ms > STREAM_LATE_MS:
        late_s = figures.shards.oldest_pending_ms / 1_000
        text = f"changes of tables wait for {late_s:,.0f} s to be published"
        yield Alarm("StreamLate", Severity.WARNING, text)
    if figures.table_spaces.nearly_full:
        text = f"{figures.table_spaces.nearly_full:,} tables use at least 90 % of their quota"
        yield Alarm("TableNearlyFull", Severity.WARNING, text)


def _cluster(cluster: ClusterFigures | None) -> Iterator[Alarm]:
    if cluster is None:
        return
    if not cluster.member:
        text = "no valid session with ZooKeeper: open partitions continue, nothing is opened"
        yield Alarm("NotAMember", Severity.CRITICAL, text)
    if not cluster.leader_known:
        yield Alarm("NoLeader", Severity.CRITICAL, "no leader is known: nothing is assigned")
    unassigned = cluster.partitions.get("", 0)
    if unassigned:
        text = f"{unassigned:,} partitions have no server"
        yield Alarm("PartitionsUnassigned", Severity.CRITICAL, text)
