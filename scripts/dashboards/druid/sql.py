"""SQL of the panels over Druid.

Grafana replaces ``${__from}``, ``${__to}`` (Unix ms) and ``$__interval_ms``. The plugin takes a
column for a time if its name contains ``time_``, and guesses the type of every other one from its
values, so texts begin with a word: a tenant called ``7`` would be a number otherwise. A series is
named by its column ``name``.
"""

from typing import Final

from scripts.dashboards.panel import HALF, STAT, Panel, Query

TOP: Final = 10
SERVERS: Final = "service = 'server' AND topic = ''"  # rows of whole servers
PARTITIONS: Final = "service = 'server' AND topic <> ''"
TENANT: Final = "CONCAT('tenant ', tenant)"
TOPIC: Final = "CONCAT(tenant, '/', topic)"
SERVER: Final = "CONCAT('server ', machine)"
RATE: Final = "SUM(total) * 1000.0 / $__interval_ms"
PEAK: Final = "MAX(high)"
MEAN: Final = "SUM(total) / SUM(samples)"
_STEP: Final = "(TIMESTAMP_TO_MILLIS(__time) / $__interval_ms) * $__interval_ms"
_DAY: Final = "TIME_FLOOR(__time, 'P1D')"


def rows(table: str, measure: str, scope: str) -> str:
    """What comes after FROM: the rows of a measure in the dashboard's range."""
    return (
        f"metrics WHERE table_name = '{table}' AND __time >= MILLIS_TO_TIMESTAMP(${{__from}}) "
        f"AND __time < MILLIS_TO_TIMESTAMP(${{__to}}) AND measure = '{measure}' AND {scope}"
    )


def series(measure: str, value: str, legend: str, scope: str = SERVERS) -> Query:
    """One curve: the measure over all rows of the scope."""
    source = rows("metrics_1m", measure, scope)
    return Query(
        f'SELECT {_STEP} AS time_ms, {value} AS "value" FROM {source} GROUP BY 1 ORDER BY 1',
        legend,
    )


def by(measure: str, value: str, key: str, scope: str, *, step: str = _STEP) -> Query:
    """A curve for each value of ``key`` of those that are largest in the whole range."""
    table = "metrics_1h" if step == _DAY else "metrics_1m"
    source = rows(table, measure, scope)
    whole = value.replace("$__interval_ms", "1000")
    largest = f"SELECT {key} FROM {source} GROUP BY 1 ORDER BY {whole} DESC LIMIT {TOP}"
    name = "time_day" if step == _DAY else "time_ms"
    return Query(
        f'SELECT {step} AS {name}, {key} AS "name", {value} AS "value" FROM {source} '
        f"AND {key} IN ({largest}) GROUP BY 1, 2 ORDER BY 1",
        "",
    )


def by_day(measure: str, key: str) -> Query:
    """Sums by day in UTC and ``key``."""
    return by(measure, "SUM(total)", key, PARTITIONS, step=_DAY)


def slower(measure: str, bucket: int, legend: str) -> Query:
    """The share of calls in buckets of the sketch beyond ``bucket``."""
    source = rows("metrics_1m_sketches", measure, SERVERS)
    # Druid makes a filtered aggregator of the CASE, which is null if no row passes.
    some = f'SUM(CASE WHEN "bucket" > {bucket} THEN "count" ELSE 0 END)'
    share = f'1.0 * COALESCE({some}, 0) / SUM("count")'
    return Query(
        f'SELECT {_STEP} AS time_ms, {share} AS "value" FROM {source} GROUP BY 1 ORDER BY 1',
        legend,
    )


def curves(title: str, unit: str, *queries: Query, about: str = "", width: int = HALF) -> Panel:
    """A panel of curves."""
    return Panel(title, unit, queries, about, width=width)


def number(title: str, unit: str, measure: str, value: str, scope: str = SERVERS) -> Panel:
    """One number over the whole range."""
    source = rows("metrics_1m", measure, scope)
    return Panel(
        title, unit, (Query(f'SELECT {value} AS "value" FROM {source}', title),), "", "stat", STAT
    )
