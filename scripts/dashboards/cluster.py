"""Members, moves, storage and damage."""

from typing import Final

from scripts.dashboards.panel import (
    Dashboard,
    Panel,
    Query,
    Row,
    gauge,
    rate,
    stat,
)

CLUSTER: Final = Dashboard(
    "cluster",
    "OpenTalos: cluster health",
    "Members, moves, storage and damage.",
    (
        Row(
            "Now",
            (
                stat("Members", "none", "sum(opentalos_cluster_member{$S})"),
                stat(
                    "Leaders",
                    "none",
                    "sum(opentalos_cluster_leading{$S})",
                    "1 in a healthy cluster.",
                ),
                stat(
                    "Unassigned partitions",
                    "none",
                    "max(opentalos_cluster_partitions_unassigned{$S})",
                ),
                stat(
                    "Storage full",
                    "none",
                    "sum(opentalos_storage_full{$S})",
                    "Servers that reject puts.",
                ),
                stat("Damaged segments", "none", "sum(opentalos_log_damaged_segments{$S})"),
                stat(
                    "Retention paused",
                    "none",
                    "sum(opentalos_retention_paused{$S})",
                    "Servers whose clock is in doubt.",
                ),
            ),
        ),
        Row(
            "Placement",
            (
                Panel("Partitions by server", "short", (Query(gauge("cluster_partitions_owned")),)),
                Panel(
                    "Moves",
                    "short",
                    (
                        Query(
                            "sum by (kind) (increase(opentalos_cluster_moves_total{$S}[1h]))",
                            "{{kind}}",
                        ),
                    ),
                    "Of an hour.",
                ),
                Panel(
                    "Registered servers",
                    "short",
                    (Query(gauge("cluster_servers")),),
                    "As each server sees it.",
                ),
                Panel(
                    "Moving and unassigned",
                    "short",
                    (
                        Query("max(opentalos_cluster_partitions_moving{$S})", "moving"),
                        Query("max(opentalos_cluster_partitions_unassigned{$S})", "unassigned"),
                    ),
                ),
                Panel(
                    "Forwarded requests",
                    "ops",
                    (
                        Query(rate("forwarded_requests_total", "instance")),
                        Query(rate("forwarded_failures_total", "instance"), "{{instance}}, failed"),
                    ),
                ),
                Panel(
                    "Bytes between servers",
                    "Bps",
                    (Query(rate("forwarded_bytes_total", "direction"), "{{direction}}"),),
                ),
            ),
        ),
        Row(
            "Logs",
            (
                Panel(
                    "Openings and recoveries",
                    "ops",
                    (
                        Query(rate("log_openings_total"), "opened"),
                        Query(rate("log_recoveries_total"), "reopened after a failure"),
                    ),
                ),
                Panel(
                    "Failures of storage",
                    "ops",
                    (
                        Query(
                            rate("log_commit_failures_total", "instance"), "{{instance}}, failed"
                        ),
                        Query(rate("log_hung_commits_total", "instance"), "{{instance}}, hung"),
                    ),
                ),
                Panel("Open partitions", "short", (Query(gauge("log_open_partitions")),)),
                Panel(
                    "Commit lanes",
                    "short",
                    (
                        Query(gauge("log_lanes")),
                        Query(gauge("log_lanes_stalled"), "{{instance}}, stalled"),
                    ),
                ),
                Panel("Free space", "bytes", (Query(gauge("storage_free_bytes")),)),
                Panel(
                    "Corruptions of a day",
                    "short",
                    (
                        Query(
                            "sum by (instance) (increase(opentalos_log_corruptions_total{$S}[1d]))"
                        ),
                    ),
                ),
                Panel("Files with too few replicas", "short", (Query(gauge("hdfs_files_short")),)),
                Panel(
                    "Journals",
                    "bytes",
                    (
                        Query(gauge("journal_stored_bytes"), "{{instance}}, stored"),
                        Query(gauge("journal_unwritten_bytes"), "{{instance}}, only there"),
                    ),
                ),
            ),
        ),
        Row(
            "Clocks and certificates",
            (
                Panel(
                    "Clock ahead of the known time",
                    "s",
                    (Query(gauge("clock_disagreement_seconds")),),
                ),
                Panel(
                    "Certificate valid for",
                    "s",
                    (Query("opentalos_tls_certificate_expiry_timestamp_seconds{$S} - time()"),),
                ),
            ),
        ),
    ),
)
