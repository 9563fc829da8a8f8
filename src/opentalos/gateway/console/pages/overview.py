"""The overview: is everything well, and what moves."""

import asyncio
from typing import Any, Final

from opentalos.gateway.console.page import Page, View, Visit
from opentalos.gateway.console.pages import series

TOP: Final = 12  # busiest topics, and groups with the largest lag
SPARKS: Final = 100  # topics whose rate over time is read
RECENT_S: Final = 900
REFRESH_S: Final = 5
_STATES: Final = {"critical": "bad"}
LAG_WARNS: Final = 10_000  # messages that a group may lag before the overview names it


async def show(visit: Visit) -> View:
    """Servers, throughput, alarms, the busiest topics."""
    looks = visit.who.looks
    status, health, cluster, rate, slowest, failed = await asyncio.gather(
        visit.rest.maybe("status"),
        visit.rest.maybe("health", absent=(403, 404)) if looks else _nothing(),
        visit.rest.maybe("cluster") if looks else _nothing(),
        series.read(visit, "messages_in", span_s=RECENT_S, by="topic", limit=SPARKS),
        series.read(visit, "put_p99", span_s=RECENT_S) if looks else _no_series(),
        series.read(visit, "errors", span_s=RECENT_S) if looks else _no_series(),
    )
    span = visit.query.choice("span", tuple(series.SPANS), "1h")
    topics: list[dict[str, Any]] = status["topics"] if status else []
    busiest = sorted(topics, key=lambda topic: topic["bytes_per_s"] or 0, reverse=True)
    lags = [
        {"group": group, "topic": topic["name"], "owner": topic["owner"], "lag": lag}
        for topic in topics
        for group, lag in (topic["lags"] or {}).items()
        if lag is not None  # of a damaged partition; that is an alarm
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
            "alarms": _alarms(health, cluster, lags),
            "cluster": cluster,
            "readable": status is not None,
            "rate": rate,
            "p99_ms": slowest.first.latest if slowest.first else None,
            "errors_s": failed.first.latest if failed.first else None,
            "charts": True,
            "span": span,
            "spans": tuple(series.SPANS),
            "charted": _charts(span, looks=looks),
        },
        cli=("talos topic list", "talos cluster status")
        if visit.who.looks
        else ("talos topic list",),
        refresh_s=REFRESH_S,
    )


def _charts(span: str, *, looks: bool) -> list[tuple[str, str, str]]:
    """Title, source and unit of each chart."""
    found = [
        ("Messages per second, by topic", series.source("messages_in", by="topic", span=span), ""),
        ("Bytes per second, by topic", series.source("bytes_in", by="topic", span=span), "bytes"),
    ]
    if looks:
        percentiles = "put_p50,put_p99,put_p999"
        found += [
            ("Latency of puts, ms", series.source(percentiles, span=span), ""),
            ("Errors per second", series.source("errors", by="error", span=span), ""),
        ]
    return found


def _totals(topics: list[dict[str, Any]]) -> dict[str, float]:
    names = ("messages", "bytes", "partitions", "messages_per_s", "bytes_per_s")
    return {name: sum(topic[name] or 0 for topic in topics) for name in names}


def _alarms(
    health: dict[str, Any] | None, cluster: dict[str, Any] | None, lags: list[dict[str, Any]]
) -> list[tuple[str, str]]:
    """What needs attention: (state, text), the worst first."""
    found = [
        (_STATES.get(alarm["severity"], "warn"), f"{alarm['server']}: {alarm['text']}")
        for alarm in (health["alarms"] if health else ())
    ]
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
    return sorted(found, key=lambda alarm: alarm[0])  # bad precedes warn


async def _nothing() -> None:
    return None


async def _no_series() -> series.Series:
    return series.Series((), ())


PAGES = (Page(path="", show=show, menu="Overview"),)
