"""Traffic by topic, consumer groups and streams of tables."""

from typing import Final

from scripts.dashboards.panel import (
    SERIES_OF_TOPICS,
    Dashboard,
    Panel,
    Query,
    Row,
    by_topic,
    gauge,
    rate,
    text,
)

EVENTS: Final = "sum by (event) (increase(opentalos_group_position_events_total{$S}[1h]))"
STORED: Final = rate("topic_messages_total", "topic", more=',direction="in"')
READ: Final = rate("topic_messages_total", "topic", more=',direction="out"')
TOPICS: Final = Dashboard(
    "topics",
    "OpenTalos: topics and consumers",
    "Traffic by topic, consumer groups, streams.",
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
            ),
        ),
        Row(
            "Consumer groups",
            (
                text(
                    "Lag",
                    "Lag has topic and group as labels, so it is not in `/metrics`. It is in the "
                    "measurements: `talos query series metrics_1m --measure consumer_lag_max "
                    "--by topic --value max:high`, with "
                    "`--plot lag.svg` as a chart; on the status page; and in `talos group`.",
                ),
                Panel(
                    "Groups and workers",
                    "short",
                    (
                        Query("sum(opentalos_groups{$S})", "groups"),
                        Query("sum(opentalos_group_workers{$S})", "workers"),
                        Query("sum(opentalos_group_leases{$S})", "leased partitions"),
                    ),
                ),
                Panel(
                    "Gets that wait",
                    "short",
                    (Query(gauge("gets_waiting")),),
                    "Consumers at the end of their partitions: they are not behind.",
                ),
                Panel(
                    "Commits and rebalances",
                    "ops",
                    (
                        Query(rate("group_commits_total"), "commits"),
                        Query(rate("group_rebalances_total"), "rebalances"),
                    ),
                ),
                Panel(
                    "Positions outside the log",
                    "short",
                    (
                        Query(
                            EVENTS,
                            "{{event}}",
                        ),
                    ),
                    "Of an hour. Expired: retention was faster than a group.",
                ),
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
