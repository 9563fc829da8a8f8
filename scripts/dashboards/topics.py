"""Traffic by topic, and how much of it is read."""

from typing import Final

from scripts.dashboards.panel import (
    SERIES_OF_TOPICS,
    Dashboard,
    Panel,
    Query,
    Row,
    by_topic,
    rate,
    text,
)

STORED: Final = rate("topic_messages_total", "topic", more=',direction="in"')
READ: Final = rate("topic_messages_total", "topic", more=',direction="out"')
TOPICS: Final = Dashboard(
    "topics",
    "OpenTalos: topics",
    "Traffic by topic, and how much of it is read.",
    (
        Row(
            "Topics",
            (
                text("Series by topic", SERIES_OF_TOPICS),
                Panel(
                    "Stored",
                    "Bps",
                    (Query(by_topic("bytes", "in"), "{{topic}}"),),
                    "The ten largest.",
                ),
                Panel(
                    "Read",
                    "Bps",
                    (Query(by_topic("bytes", "out"), "{{topic}}"),),
                    "The ten largest.",
                ),
                Panel(
                    "Messages stored",
                    "ops",
                    (Query(by_topic("messages", "in"), "{{topic}}"),),
                    "The ten largest.",
                ),
                Panel(
                    "Read for each stored message",
                    "short",
                    (Query(f"{READ} / {STORED}", "{{topic}}"),),
                    "About 1 with one consumer group; while it is less, the group falls behind.",
                ),
                Panel(
                    "Partitions",
                    "short",
                    (
                        Query("max(opentalos_topic_partitions{$S})", "of tenants"),
                        Query("sum(opentalos_log_open_partitions{$S})", "open"),
                    ),
                ),
                Panel(
                    "Topics",
                    "short",
                    (Query("max(opentalos_topics{$S})", "of tenants"),),
                ),
            ),
        ),
    ),
)
