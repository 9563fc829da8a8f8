"""The overview: is everything well, and what moves."""

import asyncio
from typing import Any

from opentalos.gateway.console.page import Page, View, Visit

TOP: int = 12  # busiest topics, and groups with the largest lag
REFRESH_S: int = 5
LAG_WARNS: int = 10_000  # messages that a group may lag before the overview names it


async def show(visit: Visit) -> View:
    """Servers, throughput, alarms, the busiest topics."""
    status, cluster = await asyncio.gather(
        visit.rest.maybe("status"),
        visit.rest.maybe("cluster") if visit.who.looks else _nothing(),
    )
    topics: list[dict[str, Any]] = status["topics"] if status else []
    busiest = sorted(topics, key=lambda topic: topic["bytes_per_s"] or 0, reverse=True)
    lags = [
        {"group": group, "topic": topic["name"], "owner": topic["owner"], "lag": lag}
        for topic in topics
        for group, lag in (topic["lags"] or {}).items()
    ]
    lags.sort(key=lambda row: row["lag"], reverse=True)
    return View(
        template="overview.html",
        title="Overview",
        data={
            "topics": busiest[:TOP],
            "known": len(topics) + (status["more"] if status else 0),
            "totals": _totals(topics),
            "lags": [row for row in lags if row["lag"]][:TOP],
            "alarms": _alarms(cluster, lags),
            "cluster": cluster,
            "readable": status is not None,
        },
        cli=("talos topic list", "talos cluster status")
        if visit.who.looks
        else ("talos topic list",),
        refresh_s=REFRESH_S,
    )


def _totals(topics: list[dict[str, Any]]) -> dict[str, float]:
    names = ("messages", "bytes", "partitions", "messages_per_s", "bytes_per_s")
    return {name: sum(topic[name] or 0 for topic in topics) for name in names}


def _alarms(cluster: dict[str, Any] | None, lags: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """What needs attention: (state, text), the worst first."""
    found: list[tuple[str, str]] = []
    if cluster is not None:
        silent = [server["name"] for server in cluster["servers"] if not server["answers"]]
        if silent:
            found.append(("bad", f"no answer from {', '.join(silent)}"))
        if cluster["unassigned"]:
            found.append(("bad", f"{cluster['unassigned']:,} partitions have no server"))
        if cluster["moving"]:
            found.append(("warn", f"{len(cluster['moving']):,} partitions are moving"))
    found += [
        ("warn", f"group {row['group']} lags {row['lag']:,} messages on {row['topic']}")
        for row in lags[:TOP]
        if row["lag"] >= LAG_WARNS
    ]
    return found


async def _nothing() -> None:
    return None


PAGES = (Page(path="", show=show, menu="Overview"),)
