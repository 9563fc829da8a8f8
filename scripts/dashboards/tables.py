"""Structured tables: calls, units, space and the streams of their changes."""

from typing import Final

from scripts.dashboards.panel import (
    Dashboard,
    Panel,
    Query,
    Row,
    gauge,
    latency,
    rate,
    stat,
)

TABLES: Final = Dashboard(
    "tables",
    "OpenTalos: tables",
    "Calls, capacity units, space and change streams of structured tables.",
    (
        Row(
            "Now",
            (
                stat("Tables", "none", "max(opentalos_tables{$S})"),
                stat("Open shards", "none", "sum(opentalos_table_shards{$S})"),
                stat(
                    "Nearly full",
                    "none",
                    "sum(opentalos_tables_nearly_full{$S})",
                    "Tables that use at least 90 % of their quota.",
                ),
                stat("Stopped streams", "none", "max(opentalos_streams_stopped{$S})"),
                stat(
                    "Oldest unpublished change",
                    "s",
                    "max(opentalos_stream_pending_oldest_seconds{$S})",
                ),
                stat("Space of quotas", "bytes", "sum(opentalos_table_space_bytes{$S})"),
            ),
        ),
        Row(
            "Calls",
            (
                Panel("Calls", "ops", (Query(rate("sds_calls_total", "rpc"), "{{rpc}}"),)),
                Panel(
                    "Mutations",
                    "ops",
                    (
                        Query(rate("table_mutations_total"), "rows"),
                        Query(rate("table_groups_total"), "commits"),
                    ),
                    "Rows for each commit: how well writes share commits.",
                ),
                latency("Reads", "sds_read_duration_seconds", "Get and scan."),
                latency("Writes", "sds_write_duration_seconds", "Put, increment, remove, batch."),
                Panel(
                    "Capacity units", "ops", (Query(rate("table_units_total", "kind"), "{{kind}}"),)
                ),
                Panel(
                    "Throttled and rejected",
                    "ops",
                    (
                        Query(rate("table_throttled_total"), "throttled"),
                        Query(rate("table_rejections_total"), "rejected by rate"),
                        Query(rate("table_space_refusals_total"), "rejected by space"),
                    ),
                ),
                Panel("Shards by server", "short", (Query(gauge("table_shards")),)),
                Panel("Space by server", "bytes", (Query(gauge("table_space_bytes")),)),
            ),
        ),
        Row(
            "Streams of tables",
            (
                Panel(
                    "Oldest unpublished change",
                    "s",
                    (Query(gauge("stream_pending_oldest_seconds")),),
                ),
                Panel("Unpublished changes", "short", (Query(gauge("stream_pending_entries")),)),
                Panel(
                    "Published",
                    "ops",
                    (
                        Query(rate("stream_published_total"), "published"),
                        Query(rate("stream_resent_total"), "resent"),
                    ),
                ),
                Panel(
                    "Stopped streams",
                    "short",
                    (Query("max(opentalos_streams_stopped{$S})", "stopped"),),
                ),
            ),
        ),
    ),
)
