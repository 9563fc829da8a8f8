"""Small limits, so that segments roll, seal and expire within seconds."""

import random
from dataclasses import replace

from opentalos.model.limits import LogLimits, QuotaLimits
from opentalos.model.settings.tables import SdsLimits

TIGHT_QUOTA = 0.2  # probability that a seed has a low put quota

LOG_LIMITS = LogLimits(
    group_blocks_max=8,
    segment_bytes_max=2 << 10,
    segment_age_max_s=6.0,
    segments_open_max=4,
    idle_seal_s=3.0,
    index_interval_bytes=512,
    tail_cache_bytes_max=8 << 10,
    recover_deadline_s=3.0,
    merge_segments_min=3,
    retention_interval_s=1.0,
    delete_grace_s=2.0,
    clock_disagree_max_s=60.0,
    space_reserve_bytes=2 << 10,
)

JOURNAL_BYTES_MAX = 8 << 10


def with_journal(limits: LogLimits) -> LogLimits:
    """The same with a journal, so small that it is trimmed all the time."""
    return replace(limits, journal="on", journal_bytes_max=JOURNAL_BYTES_MAX)


FILES_OPEN_MAX = 2


def with_late_segments(limits: LogLimits, seed: int) -> LogLimits:
    """Half of the seeds with a journal make a segment's file only when it is written to."""
    if not limits.journaled or limits.journal_files_open_max or seed % 2:
        return limits
    return replace(limits, journal_files_open_max=FILES_OPEN_MAX)


SDS_LIMITS = SdsLimits(
    group_rows_max=4,
    waiting_max=40,
    pending_entries_max=60,
    refused_max_s=4.0,
    write_deadline_s=6.0,
    settle_s=20.0,  # a zombie may pause, resume, live and have a late write, some seconds each
    opened_scan_interval_s=1.0,
    pending_scan_interval_s=4.0,
    idle_close_s=5.0,
)


def draw_quota(rng: random.Random) -> QuotaLimits:
    """Some seeds throttle or reject many puts."""
    if rng.random() < TIGHT_QUOTA:
        return QuotaLimits(topic_put_requests_per_s=rng.randint(1, 4), throttle_max_s=1.0)
    return QuotaLimits()
