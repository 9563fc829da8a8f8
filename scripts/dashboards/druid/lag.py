"""Lag of consumers by topic, from measurements of partitions."""

from typing import Final

from scripts.dashboards.druid.sql import (
    MEAN,
    PARTITIONS,
    PEAK,
    SERVER,
    SERVERS,
    TENANT,
    TOPIC,
    by,
    curves,
    number,
)
from scripts.dashboards.panel import DRUID, Dashboard, Row, text

DRUID_LAG: Final = Dashboard(
    "lag",
    "OpenTalos: lag, from measurements",
    "How far consumer groups are behind, by topic and tenant.",
    (
        Row(
            "Lag",
            (
                text(
                    "Groups",
                    "Measurements have the lag of a partition, of its worst group and of all its "
                    "groups together. Lag by group is in Prometheus, on the page "
                    "*OpenTalos: consumer groups*.",
                ),
                number("Worst partition", "short", "consumer_lag_max", PEAK),
                curves(
                    "Worst partition by topic",
                    "short",
                    by("consumer_lag_max", PEAK, TOPIC, PARTITIONS),
                    about="Messages behind of the worst group on the worst partition.",
                ),
                curves(
                    "Worst partition by tenant",
                    "short",
                    by("consumer_lag_max", PEAK, TENANT, PARTITIONS),
                ),
                curves(
                    "All groups of a server",
                    "short",
                    by("consumer_lag", MEAN, SERVER, SERVERS),
                    about="Messages behind of all groups that it coordinates.",
                ),
                curves("Groups", "short", by("groups", MEAN, SERVER, SERVERS)),
                curves("Workers", "short", by("group_workers", MEAN, SERVER, SERVERS)),
            ),
        ),
    ),
    DRUID,
)
