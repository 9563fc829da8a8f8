"""Panels of Grafana's dashboards, and the expressions that they have in common.

In an expression ``$S`` stands for the selected job and servers. Units are Grafana's.
"""

from dataclasses import dataclass
from typing import Final

FULL: Final = 24  # columns of a dashboard
HALF: Final = 12
STAT: Final = 4
RATE: Final = "[$__rate_interval]"
PROMETHEUS: Final = "prometheus"  # types of data sources
DRUID: Final = "grafadruid-druid-datasource"


@dataclass(frozen=True, slots=True)
class Query:
    """A PromQL expression or SQL, and the name of its series."""

    expr: str
    legend: str = "{{instance}}"


@dataclass(frozen=True, slots=True)
class Panel:
    """A picture; ``kind`` is timeseries, stat or text. ``about`` is shown when asked for."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    about: str = ""
    kind: str = "timeseries"
    width: int = HALF


@dataclass(frozen=True, slots=True)
class Row:
    """A heading and the panels below it."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A page; ``name`` is its file and, with a prefix, its uid. ``source`` is a plugin's id."""

    name: str
    title: str
    about: str
    rows: tuple[Row, ...]
    source: str = PROMETHEUS

    @property
    def uid(self) -> str:
        """Of the page within Grafana."""
        return f"opentalos-{'' if self.source == PROMETHEUS else 'druid-'}{self.name}"


def rate(metric: str, *by: str, more: str = "") -> str:
    """The sum of a counter's rates."""
    over = f" by ({', '.join(by)})" if by else ""
    return f"sum{over} (rate(opentalos_{metric}{{$S{more}}}{RATE}))"


def gauge(metric: str) -> str:
    """A gauge by server."""
    return f"opentalos_{metric}{{$S}}"


def quantile(share: float, histogram: str) -> str:
    """A quantile over all selected servers."""
    buckets = f"rate(opentalos_{histogram}_bucket{{$S}}{RATE})"
    return f"histogram_quantile({share:g}, sum by (le) ({buckets}))"


def latency(title: str, histogram: str, about: str = "") -> Panel:
    """Quantiles of a histogram of seconds."""
    shown = ((0.5, "P50"), (0.9, "P90"), (0.99, "P99"))
    queries = tuple(Query(quantile(share, histogram), name) for share, name in shown)
    return Panel(title, "s", queries, about)


def stat(title: str, unit: str, expr: str, about: str = "") -> Panel:
    """One number."""
    return Panel(title, unit, (Query(expr, title),), about, "stat", STAT)


def text(title: str, content: str) -> Panel:
    """Words in Markdown."""
    return Panel(title, "", (), content, "text", FULL)


def by_tenant(unit: str, direction: str) -> str:
    """The ten tenants with most traffic; the label topic is OWNER/NAME."""
    rates = f'rate(opentalos_topic_{unit}_total{{$S,direction="{direction}"}}{RATE})'
    owner = f'label_replace({rates}, "tenant", "$1", "topic", "([^/]*).*")'
    return f"topk(10, sum by (tenant) ({owner}))"


def by_topic(unit: str, direction: str) -> str:
    """The ten topics with most traffic."""
    selected = f',direction="{direction}"'
    return f"topk(10, {rate(f'topic_{unit}_total', 'topic', more=selected)})"


SERIES_OF_TOPICS: Final = (
    "Needs `[metrics] topics_max` in the configuration of the servers. Topics beyond that number "
    "share the series `other`."
)
