"""Counters of the log for metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class LogCounters:
    """Totals since the server started; only the log writes them."""

    commits: int = 0
    blocks: int = 0
    messages: int = 0
    bytes: int = 0
    commit_failures: int = 0
    openings: int = 0
    reopens: int = 0
    rolls: int = 0
    seals: int = 0
    stalls: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    duplicates: int = 0
    corrupt: int = 0
    truncated: int = 0  # flushed logs found shorter after a power loss
    waiter_failures: int = 0
    segments_dropped: int = 0
    retention_standing: int = 0  # passes that deleted nothing since the clocks disagree
    refused_full: int = 0
