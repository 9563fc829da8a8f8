"""Consumer groups: how far behind they are, and how their workers share partitions."""

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

EVENTS: Final = "sum by (event) (increase(opentalos_group_position_events_total{$S}[1h]))"
LAG: Final = "max by (topic, group) (opentalos_group_lag_messages{$S})"
NAME: Final = "{{group}} on {{topic}}"
GROUPS: Final = Dashboard(
    "groups",
    "OpenTalos: consumer groups",
    "Lag of consumer groups, their workers and commits.",
    (
        Row(
            "Lag",
            (
                stat(
                    "Worst group",
                    "short",
                    "max(opentalos_group_lag_max_messages{$S})",
                    "Messages behind, on all partitions of one topic together.",
                ),
                stat("All groups", "short", "sum(opentalos_group_lag_messages{$S})"),
                stat("Groups", "none", "sum(opentalos_groups{$S})"),
                stat("Workers", "none", "sum(opentalos_group_workers{$S})"),
                text(
                    "Series by group",
                    "The `[metrics] groups_max` groups (50) that are furthest behind have series "
                    "of their own on the server that coordinates them; others share the group "
                    "`other`. Lag is measured every `[measuring] step_s` (10 s).",
                ),
                Panel("Lag", "short", (Query(f"topk(10, {LAG})", NAME),), "The ten largest."),
                Panel(
                    "Growth of lag",
                    "ops",
                    (
                        Query(
                            "topk(10, max by (topic, group) "
                            "(deriv(opentalos_group_lag_messages{$S}[10m])))",
                            NAME,
                        ),
                    ),
                    "Messages/s by which a group falls further behind; below 0 it catches up.",
                ),
            ),
        ),
        Row(
            "Groups",
            (
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
    ),
)
