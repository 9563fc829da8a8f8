"""What will be billed, and whether metering keeps up."""

from typing import Final

from scripts.dashboards.panel import (
    Dashboard,
    Panel,
    Query,
    Row,
    gauge,
    rate,
    stat,
    text,
)

BILLING: Final = Dashboard(
    "billing",
    "OpenTalos: metering and billing",
    "What will be billed, and whether metering keeps up.",
    (
        Row(
            "Now",
            (
                stat(
                    "Oldest unmetered minute",
                    "s",
                    "max(opentalos_metering_oldest_seconds{$S})",
                    "0: metering keeps up. Retention waits for it.",
                ),
                stat("Late partitions", "none", "sum(opentalos_metering_partitions_late{$S})"),
                stat(
                    "Usage lost in 30 days",
                    "none",
                    "sum(increase(opentalos_metering_lost_events_total{$S}[30d]))",
                    "Events of deleted topics, missing on the bill; the log names the topics.",
                ),
                stat("Stored in 24 h", "bytes", "sum(increase(opentalos_put_bytes_total{$S}[1d]))"),
                stat(
                    "Messages in 24 h",
                    "short",
                    "sum(increase(opentalos_messages_stored_total{$S}[1d]))",
                ),
                stat("Topics", "none", "max(opentalos_topics{$S})"),
            ),
        ),
        Row(
            "Metering",
            (
                Panel(
                    "Usage events",
                    "ops",
                    (Query(rate("metering_events_total", "instance")),),
                    "One for each partition and minute with messages.",
                ),
                Panel(
                    "Failed passes",
                    "ops",
                    (Query(rate("metering_failures_total", "instance")),),
                    "`__usage` rejected them; they are repeated.",
                ),
                Panel("Oldest unmetered minute", "s", (Query(gauge("metering_oldest_seconds")),)),
                Panel("Late partitions", "short", (Query(gauge("metering_partitions_late")),)),
            ),
        ),
        Row(
            "Usage",
            (
                text(
                    "Exact numbers",
                    "Counters begin at 0 with each start of a server and include the service's own "
                    "topics, so these are trends. Exact are `talos bill invoice`, with charts by "
                    "day, and `talos bill export`.",
                ),
                Panel(
                    "Stored by day",
                    "bytes",
                    (Query("sum(increase(opentalos_put_bytes_total{$S}[1d]))", "bytes"),),
                ),
                Panel(
                    "Read by day",
                    "bytes",
                    (Query("sum(increase(opentalos_get_bytes_total{$S}[1d]))", "bytes"),),
                ),
                Panel(
                    "Partitions",
                    "short",
                    (Query("max(opentalos_topic_partitions{$S})", "partitions"),),
                ),
                Panel(
                    "Audit events",
                    "ops",
                    (
                        Query(rate("audit_events_total"), "recorded"),
                        Query(rate("audit_events_lost_total"), "lost"),
                    ),
                ),
            ),
        ),
    ),
)
