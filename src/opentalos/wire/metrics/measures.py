"""Names, units and meaning of every measure that servers and agents write to ``__metrics``.

Rows of service "server" are of two scopes: a whole server (tenant and topic empty, partition -1),
and a partition that had traffic. "machine" rows are an agent's. "client" rows are what programs
push to an agent: any name, a gauge or a sum.
"""

from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """Where a measure stands in an event, and so how rows of it are put together."""

    SUM = "sum"  # within the step; add up
    GAUGE = "gauge"  # at the step's end; the last, the mean or the largest, never the sum of steps
    SKETCH = "sketch"  # add counts per bucket, then take percentiles


class Scope(StrEnum):
    """What a row is about."""

    SERVER = "server"
    PARTITION = "partition"
    MACHINE = "machine"


class Measure(NamedTuple):
    """One of them."""

    name: str
    kind: Kind
    scope: Scope
    unit: str
    about: str


SERVER: Final = "server"  # service of rows of a server and its partitions
MACHINE: Final = "machine"  # service of an agent's rows of its machine
CLIENT: Final = "client"  # service of what was pushed to an agent
OTHER: Final = "__other"  # topic of the row that partitions without a row of their own share

_S, _G, _K = Kind.SUM, Kind.GAUGE, Kind.SKETCH
_SERVER, _PARTITION, _MACHINE = Scope.SERVER, Scope.PARTITION, Scope.MACHINE

MEASURES: Final[tuple[Measure, ...]] = (
    Measure("requests", _S, _SERVER, "count", "Talos calls of every kind"),
    Measure("errors", _S, _SERVER, "count", "requests answered with an error, every protocol"),
    Measure("put_requests", _S, _SERVER, "count", "puts that were admitted, every protocol"),
    Measure("put_messages", _S, _SERVER, "count", "messages made durable"),
    Measure("put_bytes", _S, _SERVER, "bytes", "payload of admitted puts"),
    Measure("get_requests", _S, _SERVER, "count", "gets that were admitted, every protocol"),
    Measure("get_messages", _S, _SERVER, "count", "messages given to consumers"),
    Measure("get_bytes", _S, _SERVER, "bytes", "payload given to consumers"),
    Measure("put_ms", _K, _SERVER, "ms", "putMessage, from request to reply"),
    Measure("get_ms", _K, _SERVER, "ms", "getMessage, from request to reply, waits included"),
    Measure("quota_holds", _S, _SERVER, "count", "calls delayed by a rate quota"),
    Measure("quota_rejections", _S, _SERVER, "count", "calls refused by a quota"),
    Measure("denials", _S, _SERVER, "count", "calls refused for want of a permission"),
    Measure("log_commits", _S, _SERVER, "count", "groups made durable"),
    Measure("log_commit_failures", _S, _SERVER, "count", "commits that failed"),
    Measure("log_bytes", _S, _SERVER, "bytes", "written to logs, headers included"),
    Measure("log_stalls", _S, _SERVER, "count", "commits that kept a lane for themselves"),
    Measure("cache_hits", _S, _SERVER, "count", "reads that memory answered"),
    Measure("cache_misses", _S, _SERVER, "count", "reads that went to storage"),
    Measure("loop_blocked_ms", _S, _SERVER, "ms", "the event loop was held up by one turn"),
    Measure("cpu_ms", _S, _SERVER, "ms", "processor time of the process, all cores"),
    Measure("rows_merged", _S, _SERVER, "count", "partitions that share the row of __other"),
    Measure("loop_blocked_max_ms", _G, _SERVER, "ms", "the longest such turn of the step"),
    Measure("lane_depth", _G, _SERVER, "count", "partitions that wait for a lane or have one"),
    Measure("lanes", _G, _SERVER, "count", "lanes that commit"),
    Measure("lanes_stalled", _G, _SERVER, "count", "lanes kept by one slow commit"),
    Measure("pending_bytes", _G, _SERVER, "bytes", "of puts that wait for their commit"),
    Measure("cache_bytes", _G, _SERVER, "bytes", "recent blocks in memory"),
    Measure("connections", _G, _SERVER, "count", "open connections"),
    Measure("topics", _G, _SERVER, "count", "topics of tenants, of the whole cluster"),
    Measure("partitions", _G, _SERVER, "count", "partitions whose logs are in memory"),
    Measure("partitions_open", _G, _SERVER, "count", "partitions open for writing"),
    Measure("groups", _G, _SERVER, "count", "consumer groups that this server coordinates"),
    Measure("group_workers", _G, _SERVER, "count", "workers with a live lease"),
    Measure("consumer_lag", _G, _SERVER, "count", "messages behind, all groups coordinated here"),
    Measure("consumer_lag_max", _G, _SERVER, "count", "messages behind, worst group, partition"),
    Measure("memory_bytes", _G, _SERVER, "bytes", "resident memory of the process"),
    Measure("disk_free_bytes", _G, _SERVER, "bytes", "free space where the server keeps its data"),
    Measure("disk_total_bytes", _G, _SERVER, "bytes", "size of that file system"),
    Measure("uptime_s", _G, _SERVER, "s", "since the server started"),
    Measure("spool_bytes", _G, _SERVER, "bytes", "measurements on disk that wait for the queue"),
    Measure("spool_dropped", _G, _SERVER, "count", "events the full spool gave up, since start"),
    Measure("spool_corrupt", _G, _SERVER, "count", "damaged places of the spool, since start"),
    Measure("put_messages", _S, _PARTITION, "count", "messages made durable"),
    Measure("put_bytes", _S, _PARTITION, "bytes", "their payload"),
    Measure("put_blocks", _S, _PARTITION, "count", "message blocks made durable"),
    Measure("get_requests", _S, _PARTITION, "count", "gets that gave messages or waited in vain"),
    Measure("get_messages", _S, _PARTITION, "count", "messages given to consumers"),
    Measure("get_bytes", _S, _PARTITION, "bytes", "payload given to consumers"),
    Measure("consumer_lag", _G, _PARTITION, "count", "messages behind, all groups together"),
    Measure("consumer_lag_max", _G, _PARTITION, "count", "messages behind, worst group"),
    Measure("cpu_ms", _S, _MACHINE, "ms", "processor time in use, all cores"),
    Measure("cpu_steal_ms", _S, _MACHINE, "ms", "processor time taken by other machines"),
    Measure("disk_read_bytes", _S, _MACHINE, "bytes", "read from disks"),
    Measure("disk_written_bytes", _S, _MACHINE, "bytes", "written to disks"),
    Measure("disk_busy_ms", _S, _MACHINE, "ms", "disks were busy, all disks together"),
    Measure("net_received_bytes", _S, _MACHINE, "bytes", "received, loopback left out"),
    Measure("net_sent_bytes", _S, _MACHINE, "bytes", "sent, loopback left out"),
    Measure("net_errors", _S, _MACHINE, "count", "packets with errors or dropped"),
    Measure("push_refused", _S, _MACHINE, "count", "pushes that the agent refused"),
    Measure("push_points", _S, _MACHINE, "count", "values that programs pushed to the agent"),
    Measure("cpu_cores", _G, _MACHINE, "count", "processors"),
    Measure("load_1", _G, _MACHINE, "count", "load average of a minute"),
    Measure("load_5", _G, _MACHINE, "count", "load average of five minutes"),
    Measure("load_15", _G, _MACHINE, "count", "load average of fifteen minutes"),
    Measure("memory_bytes", _G, _MACHINE, "bytes", "memory in use"),
    Measure("memory_total_bytes", _G, _MACHINE, "bytes", "memory of the machine"),
    Measure("swap_bytes", _G, _MACHINE, "bytes", "swap in use"),
    Measure("disk_free_bytes", _G, _MACHINE, "bytes", "free space of the fullest file system"),
    Measure("disk_total_bytes", _G, _MACHINE, "bytes", "size of that file system"),
    Measure("disk_used_share", _G, _MACHINE, "share", "how full that file system is, 0 to 1"),
    Measure("spool_bytes", _G, _MACHINE, "bytes", "measurements on disk that wait for the queue"),
    Measure("spool_dropped", _G, _MACHINE, "count", "events the full spool gave up, since start"),
    Measure("spool_corrupt", _G, _MACHINE, "count", "damaged places of the spool, since start"),
)


def names(kind: Kind, scope: Scope) -> frozenset[str]:
    """Names of one kind in rows of one scope."""
    return frozenset(
        measure.name for measure in MEASURES if (measure.kind, measure.scope) == (kind, scope)
    )
