"""Counters of the log for metrics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from opentalos.model.histogram import COMMIT_S, GROUP_BLOCKS, Histogram
from opentalos.model.message import PartitionKey

REASON_CHARACTERS = 200  # of an error that figures show


@dataclass(slots=True)
class Traffic:
    """What this server stored and gave back of one partition or topic since it started."""

    blocks_in: int = 0
    messages_in: int = 0
    bytes_in: int = 0  # as written to the log
    payload_in: int = 0  # of it: without the log's headers
    gets: int = 0
    messages_out: int = 0
    bytes_out: int = 0  # payload

    def add(self, other: "Traffic") -> None:
        """Count what another one counted as well."""
        self.blocks_in += other.blocks_in
        self.messages_in += other.messages_in
        self.bytes_in += other.bytes_in
        self.payload_in += other.payload_in
        self.gets += other.gets
        self.messages_out += other.messages_out
        self.bytes_out += other.bytes_out


class DamagedPartition(NamedTuple):
    """A partition that refuses puts, since damage was found."""

    key: PartitionKey
    reason: str

    @classmethod
    def of(cls, key: PartitionKey, error: Exception) -> "DamagedPartition":
        """With the beginning of the error's text."""
        return cls(key, str(error)[:REASON_CHARACTERS])


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalFigures:
    """The journals at one moment."""

    files: int  # of the journals that this server writes, or wrote and still needs
    stored_bytes: int  # in them
    full: bool  # one is not trimmed as fast as it grows: groups go to their segments
    unwritten_bytes: int  # in memory, until their segments have them
    recovered: int  # journals of earlier or other servers that are being recovered
    recovered_bytes: int  # of them, in memory
    unrecovered: int = 0  # partitions that former journals are kept for, and nobody uses


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFigures:
    """The log at one moment."""

    partitions: int  # logs in memory
    open_partitions: int  # with a segment that takes puts
    open_partitions_max: int  # above it idle ones are sealed
    pending_bytes: int  # waiting for commit
    lanes: int
    lanes_stalled: int  # of them, each kept by one slow commit
    damaged_segments: int  # that the scrub found
    damaged_partitions: int  # that refuse puts, since an opening found damage
    damaged: Sequence[DamagedPartition]  # the first of them
    space_left_bytes: int  # of the storage
    full: bool  # puts are refused for want of space
    cache_bytes: int
    cache_bytes_max: int
    lane_depth: int  # partitions that wait for a lane, or have one
    clock_disagreement_s: float  # of the wall clock, ahead of the known time
    clock_doubt: str  # why nothing is deleted by age; empty: the clock is trusted
    traffic: Mapping[str, Mapping[int, Traffic]]  # by topic uuid and partition
    journal: JournalFigures

    def traffic_by_topic(self) -> Mapping[str, Traffic]:
        """The partitions of each topic together."""
        totals: dict[str, Traffic] = {}
        for topic_uuid, partitions in self.traffic.items():
            total = totals[topic_uuid] = Traffic()
            for traffic in partitions.values():
                total.add(traffic)
        return totals


@dataclass(slots=True)
class JournalCounters:
    """Of all journals that this server wrote or recovered."""

    frames: int = 0
    bytes: int = 0  # of them
    given_up: int = 0  # journals, after an error or a fence
    write_outs: int = 0  # of segments, behind the journal
    recoveries: int = 0  # of journals
    tails_cut: int = 0  # incomplete last frames that crashes left, and frames behind lost ones
    unused_recovered: int = 0  # partitions that nobody used, so that their former journal can end
    unused_failures: int = 0  # attempts at it that failed
    frame_groups: Histogram = field(default_factory=lambda: Histogram(GROUP_BLOCKS))
    commit_s: Histogram = field(default_factory=lambda: Histogram(COMMIT_S))


@dataclass(slots=True)
class LogCounters:
    """Totals since the server started; only the log writes them."""

    commits: int = 0
    blocks: int = 0
    messages: int = 0
    bytes: int = 0
    commit_failures: int = 0
    hung_commits: int = 0  # given up, with a move to a fresh file
    overdue: int = 0  # blocks that were answered since the storage did not answer in time
    isolated: int = 0  # blocks that were refused since their commits failed also alone
    openings: int = 0
    reopens: int = 0
    rolls: int = 0
    thin_rolls: int = 0  # of them, to a file that gets more replicas
    seals: int = 0
    stalls: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    duplicates: int = 0
    corrupt: int = 0
    truncated: int = 0  # flushed logs found shorter after a power loss
    end_marks: int = 0
    tails_cut: int = 0  # incomplete last groups that crashes left; none provably acknowledged
    set_aside: int = 0  # files that no manifest named, with messages that nothing proves
    scrubbed_bytes: int = 0  # read to verify them, see log/maintenance/scrub.py
    scrubbed_segments: int = 0
    scrub_passes: int = 0
    waiter_failures: int = 0
    segments_dropped: int = 0
    merges: int = 0
    segments_merged: int = 0
    merge_failures: int = 0  # the segments stay as they are
    retention_standing: int = 0  # passes that deleted nothing by age since the clock was in doubt
    refused_full: int = 0
    refused_share: int = 0  # puts of a tenant or topic that holds its share of pending bytes
    refused_manifest_full: int = 0  # openings for puts to a partition of too many segments
    journal: JournalCounters = field(default_factory=JournalCounters)
    group_blocks: Histogram = field(default_factory=lambda: Histogram(GROUP_BLOCKS))
    # By the loop's clock, whose resolution is a millisecond.
    commit_s: Histogram = field(default_factory=lambda: Histogram(COMMIT_S))
