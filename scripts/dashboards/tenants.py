"""Traffic by tenant, quotas and rejections."""

from typing import Final

from scripts.dashboards.panel import (
    SERIES_OF_TOPICS,
    Dashboard,
    Panel,
    Query,
    Row,
    by_tenant,
    gauge,
    rate,
    text,
)

TENANTS: Final = Dashboard(
    "tenants",
    "OpenTalos: tenants",
    "Traffic by tenant, quotas and rejections.",
    (
        Row(
            "Traffic by tenant",
            (
                text("Series by topic", SERIES_OF_TOPICS),
                Panel(
                    "Stored",
                    "Bps",
                    (Query(by_tenant("bytes", "in"), "{{tenant}}"),),
                    "The ten largest.",
                ),
                Panel(
                    "Read",
                    "Bps",
                    (Query(by_tenant("bytes", "out"), "{{tenant}}"),),
                    "The ten largest.",
                ),
                Panel(
                    "Messages stored",
                    "ops",
                    (Query(by_tenant("messages", "in"), "{{tenant}}"),),
                    "The ten largest.",
                ),
                Panel(
                    "Messages read",
                    "ops",
                    (Query(by_tenant("messages", "out"), "{{tenant}}"),),
                    "The ten largest.",
                ),
            ),
        ),
        Row(
            "Quotas",
            (
                Panel(
                    "Throttled calls",
                    "ops",
                    (Query(rate("quota_throttled_total", "kind"), "{{kind}}"),),
                ),
                Panel(
                    "Rejected by a quota",
                    "ops",
                    (Query(rate("quota_rejections_total", "error"), "{{error}}"),),
                ),
                Panel("Bytes of throttled puts", "bytes", (Query(gauge("quota_throttled_bytes")),)),
                Panel(
                    "Rejected for the share of memory",
                    "ops",
                    (Query(rate("log_share_refusals_total", "instance")),),
                    "A tenant or topic already holds its share of the memory for puts that wait.",
                ),
                Panel(
                    "Decisions on partitions",
                    "short",
                    (
                        Query(
                            "sum by (outcome) (increase(opentalos_quota_decisions_total{$S}[1d]))",
                            "{{outcome}}",
                        ),
                    ),
                    "Automatic decisions on requests, of a day.",
                ),
                Panel(
                    "Missing permissions", "ops", (Query(rate("access_denials_total", "instance")),)
                ),
            ),
        ),
        Row(
            "Tables",
            (
                Panel(
                    "Units used",
                    "short",
                    (Query(rate("table_units_total", "kind"), "{{kind}}"),),
                    "By second.",
                ),
                Panel(
                    "Throttled and rejected",
                    "ops",
                    (
                        Query(rate("table_throttled_total"), "throttled"),
                        Query(rate("table_rejections_total"), "rejected"),
                        Query(rate("table_space_refusals_total"), "no space"),
                    ),
                ),
            ),
        ),
    ),
)
