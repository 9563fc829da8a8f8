"""One server from the inside: its process, event loop, connections, commits and storage."""

from typing import Final

from scripts.dashboards.panel import (
    RATE,
    Dashboard,
    Panel,
    Query,
    Row,
    gauge,
    latency,
    rate,
    stat,
)

SERVER: Final = Dashboard(
    "server",
    "OpenTalos: servers",
    "Process, event loop, connections, commits and storage of each server.",
    (
        Row(
            "Now",
            (
                stat("Up", "none", "sum(up{$S})"),
                stat(
                    "Longest block of the loop",
                    "s",
                    "max(opentalos_loop_blocked_recent_seconds{$S})",
                    "In the last minute. All other requests waited for it.",
                ),
                stat("Connections", "none", "sum(opentalos_connections{$S})"),
                stat("Waiting for commits", "bytes", "sum(opentalos_log_pending_bytes{$S})"),
                stat("Free space, least", "bytes", "min(opentalos_storage_free_bytes{$S})"),
                stat("Hanging commits", "none", "sum(opentalos_log_lanes_stalled{$S})"),
            ),
        ),
        Row(
            "Process",
            (
                Panel(
                    "Processor",
                    "percentunit",
                    (Query(f"rate(process_cpu_seconds_total{{$S}}{RATE})"),),
                    "1 is one core; the event loop uses one.",
                ),
                Panel("Memory", "bytes", (Query("process_resident_memory_bytes{$S}"),)),
                Panel(
                    "Event loop blocked",
                    "percentunit",
                    (Query(f"rate(opentalos_loop_blocked_seconds_total{{$S}}{RATE})"),),
                    "The share of time in single long callbacks.",
                ),
                Panel(
                    "Descriptors and threads",
                    "short",
                    (
                        Query("process_open_fds{$S}", "{{instance}}, open files"),
                        Query("process_max_fds{$S}", "{{instance}}, limit"),
                    ),
                ),
                Panel(
                    "Limits that were reached",
                    "short",
                    (
                        Query(
                            "sum by (instance) (increase(opentalos_descriptors_exhausted_total"
                            "{$S}[1h]))",
                            "{{instance}}, descriptors",
                        ),
                        Query(
                            "sum by (instance) (increase(opentalos_thread_start_failures_total"
                            "{$S}[1h]))",
                            "{{instance}}, threads",
                        ),
                    ),
                    "Of an hour.",
                ),
                Panel(
                    "Garbage collections",
                    "ops",
                    (
                        Query(
                            f"sum by (generation) (rate(python_gc_collections_total{{$S}}{RATE}))",
                            "generation {{generation}}",
                        ),
                    ),
                ),
            ),
        ),
        Row(
            "Port",
            (
                Panel("Connections", "short", (Query(gauge("connections")),)),
                Panel(
                    "Accepted and cut",
                    "ops",
                    (
                        Query(rate("connections_accepted_total", "instance")),
                        Query(rate("connections_cut_total", "instance"), "{{instance}}, cut"),
                    ),
                ),
                Panel("Request bodies", "bytes", (Query(gauge("request_body_bytes")),)),
                Panel(
                    "Requests refused and deferred",
                    "ops",
                    (
                        Query(rate("requests_refused_total", "instance"), "{{instance}}, refused"),
                        Query(
                            rate("requests_deferred_total", "instance"), "{{instance}}, deferred"
                        ),
                    ),
                ),
                Panel("Gets that wait", "short", (Query(gauge("gets_waiting")),)),
                Panel(
                    "Long work",
                    "short",
                    (Query(gauge("long_work_waiting")),),
                    "Calls that wait for a turn to decode or encode.",
                ),
            ),
        ),
        Row(
            "Commits and storage",
            (
                latency("Commits", "log_commit_duration_seconds"),
                Panel(
                    "Commit lanes",
                    "short",
                    (
                        Query(gauge("log_lanes")),
                        Query(gauge("log_lanes_stalled"), "{{instance}}, hang"),
                    ),
                ),
                Panel("Waiting for their commit", "bytes", (Query(gauge("log_pending_bytes")),)),
                Panel("Written to logs", "Bps", (Query(rate("log_bytes_total", "instance")),)),
                Panel(
                    "Reads from memory",
                    "ops",
                    (Query(rate("tail_cache_reads_total", "result"), "{{result}}"),),
                ),
                Panel("Free space", "bytes", (Query(gauge("storage_free_bytes")),)),
            ),
        ),
    ),
)
