"""The overview: is everything well, and what moves."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentalos.gateway.console.page import Page, View, Visit, url
from opentalos.gateway.console.pages import series
from opentalos.gateway.console.shown import plural

TOP: Final = 12  # busiest topics, and groups with the largest lag
SPARKS: Final = 100  # topics whose rate over time is read
RECENT_S: Final = 900
REFRESH_S: Final = 5
_STATES: Final = {"critical": "bad"}
LAG_WARNS: Final = 10_000  # messages that a group may lag before the overview names it
# Where what an alarm of a server is about can be seen; the others are about the server itself.
_CAUSES: Final[Mapping[str, str]] = {
    "HotPartition": url("topics", order="messages_per_s"),
    "StreamGap": url("tables"),
    "StreamLate": url("tables"),
    "TableNearlyFull": url("tables", order="used"),
    "NotAMember": url("servers"),
    "NoLeader": url("servers"),
    "PartitionsUnassigned": url("servers"),
}


class Alarm(NamedTuple):
    """What needs attention. ``kind``: of its state; ``link``: the page that shows its cause."""

    kind: str
    text: str
    link: str


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
    health: dict[str, Any] | None,
    cluster: dict[str, Any] | None,
    lags: Sequence[Mapping[str, Any]],
) -> list[Alarm]:
    """What needs attention, the worst first."""
    found = [
        Alarm(
            _STATES.get(alarm["severity"], "warn"),
            f"{alarm['server']}: {alarm['text']}",
            _CAUSES.get(alarm["name"]) or url("servers", alarm["server"]),
        )
        for alarm in (health["alarms"] if health else ())
    ]
    if cluster is not None:
        found += _alarms_of_cluster(cluster)
    found += [
        Alarm(
            "warn",
            f"group {row['group']} lags {row['lag']:,} messages on {row['topic']}",
            url("groups", f"{row['owner']}/{row['topic']}", row["group"]),
        )
        for row in lags[:TOP]
        if row["lag"] >= LAG_WARNS
    ]
    return sorted(found, key=lambda alarm: alarm.kind)  # bad precedes warn


def _alarms_of_cluster(cluster: dict[str, Any]) -> Iterator[Alarm]:
    silent = [server["name"] for server in cluster["servers"] if not server["answers"]]
    if silent:
        yield Alarm("bad", f"no answer from {', '.join(silent)}", url("servers"))
    if cluster["unassigned"]:
        text = plural(cluster["unassigned"], "partition has", "partitions have") + " no server"
        yield Alarm("bad", text, url("servers"))
    if cluster["moving"]:
        text = plural(len(cluster["moving"]), "partition is", "partitions are") + " moving"
        yield Alarm("warn", text, url("servers") + "#moving")


async def _nothing() -> None:
    return None


async def _no_series() -> series.Series:
    return series.Series((), ())


PAGES = (Page(path="", show=show, menu="Overview"),)
