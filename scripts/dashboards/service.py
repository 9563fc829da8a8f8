"""Traffic, latency and load of the servers."""

from typing import Final

from scripts.dashboards.panel import (
    RATE,
    Dashboard,
    Panel,
    Query,
    Row,
    gauge,
    latency,
    quantile,
    rate,
    stat,
)

BLOCKS: Final = rate("log_group_blocks_sum", "instance")
GROUPS: Final = rate("log_group_blocks_count", "instance")
HITS: Final = rate("tail_cache_reads_total", "instance", more=',result="hit"')
SERVICE: Final = Dashboard(
    "service",
    "OpenTalos: service",
    "Traffic, latency and load of the servers.",
    (
        Row(
            "Now",
            (
                stat("Servers up", "none", "sum(up{$S})"),
                stat("Puts", "ops", rate("puts_total")),
                stat("Gets", "ops", rate("gets_total")),
                stat("P99 of puts", "s", quantile(0.99, "put_duration_seconds")),
                stat("Failed requests", "ops", rate("failures_total")),
                stat("Free space, least", "bytes", "min(opentalos_storage_free_bytes{$S})"),
            ),
        ),
        Row(
            "Traffic",
            (
                Panel(
                    "Calls",
                    "ops",
                    (Query(rate("calls_total", "kind"), "{{kind}}"),),
                    "Talos calls by kind; REST and tables are not among them.",
                ),
                Panel(
                    "Messages",
                    "ops",
                    (
                        Query(rate("messages_stored_total"), "stored"),
                        Query(rate("messages_read_total"), "read"),
                    ),
                ),
                Panel(
                    "Payload",
                    "Bps",
                    (Query(rate("put_bytes_total"), "put"), Query(rate("get_bytes_total"), "got")),
                ),
                Panel(
                    "Failures",
                    "ops",
                    (Query(rate("failures_total", "error"), "{{error}}"),),
                    "Requests of all protocols that failed, by error.",
                ),
            ),
        ),
        Row(
            "Latency",
            (
                latency("Puts", "put_duration_seconds", "From the complete request to the reply."),
                latency(
                    "Gets", "get_duration_seconds", "A get at the end of a log waits for messages."
                ),
                latency(
                    "Commits",
                    "log_commit_duration_seconds",
                    "Group commits; slow ones mean slow storage.",
                ),
                Panel(
                    "Blocks of a commit",
                    "short",
                    (Query(f"{BLOCKS} / {GROUPS}"),),
                    "The mean of a group: it grows with the load.",
                ),
            ),
        ),
        Row(
            "Load",
            (
                Panel(
                    "Event loop blocked",
                    "percentunit",
                    (Query(rate("loop_blocked_seconds_total", "instance")),),
                    "Share of the time that single callbacks blocked it: near 1 the core is busy.",
                ),
                Panel(
                    "Processor",
                    "percentunit",
                    (Query(f"sum by (instance) (rate(process_cpu_seconds_total{{$S}}{RATE}))"),),
                    "1 is a whole core.",
                ),
                Panel("Memory", "bytes", (Query("process_resident_memory_bytes{$S}"),)),
                Panel("Connections", "short", (Query(gauge("connections")),)),
                Panel(
                    "Waiting for their commit",
                    "bytes",
                    (Query(gauge("log_pending_bytes")),),
                    "Bytes of puts that are not on storage yet.",
                ),
                Panel("Request bodies", "bytes", (Query(gauge("request_body_bytes")),)),
                Panel(
                    "Reads from memory",
                    "percentunit",
                    (Query(f"{HITS} / {rate('tail_cache_reads_total', 'instance')}"),),
                    "Share of reads that the tail cache answered.",
                ),
                Panel("Open files", "short", (Query("process_open_fds{$S}"),)),
            ),
        ),
    ),
)
