"""The pipeline ``traffic-anomalies``: tenants whose latest whole day differs from their past.

Each anomaly is a line of the log and of a report, with the numbers it was found by. Meant to run
once a day, after midnight UTC, when metering has caught up.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from opentalos.adapters.system_clock import SystemClock
from opentalos.model.errors import ConfigError, TalosError
from opentalos.pipelines.lake.periods.whole_days import DAY_MS, days_option
from opentalos.pipelines.metering.usage_frame import usage_days
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.quota.pipeline import HISTORY_DAYS_MAX, daily_traffic
from opentalos.pipelines.quota.traffic_fit import WEEK
from opentalos.pipelines.traffic.anomalies import (
    FACTOR_DEFAULT,
    SPREADS_DEFAULT,
    Tolerance,
    anomaly_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEASURES: Final = MappingProxyType({"peak": "busiest minute", "mean": "mean of the day"})
_THURSDAY: Final = 3  # weekday of 1970-01-01, with Monday as 0
_HISTORY: Final = "history-days"
_SPREADS: Final = "spreads"
_FACTOR: Final = "factor"
_ON_ANOMALY: Final = "on-anomaly"
_REPORT: Final = "anomalies/latest.txt"
_SHOWN_MAX: Final = 5  # anomalies in the error's text
_FOUND: Final = "tenant string, reason string"
_FOUND_ARROW: Final = pa.schema([("tenant", pa.string()), ("reason", pa.string())])
_LOG: Final = logging.getLogger(__name__)


class UnusualTraffic(TalosError):
    """The report is written; the text names tenants whose traffic is unusual."""


def anomalies(daily: DataFrame, end_day: int, tolerance: Tolerance) -> DataFrame:
    """What is unusual on the day before ``end_day``, a row for each tenant and measure.

    Args:   daily: of ``daily_traffic``. Shape: tenant string; reason string, with the numbers.
    """

    def of_tenant(rows: pa.Table) -> pa.Table:
        days = rows.column("day").to_numpy()
        tenant, first = rows.column("tenant")[0].as_py(), int(days.min())
        weekday = (end_day - 1 + _THURSDAY) % WEEK
        found = []
        for column, measure in MEASURES.items():
            values = np.zeros(end_day - first)
            values[days - first] = rows.column(column).to_numpy()
            anomaly = anomaly_of(values, weekday, tolerance)
            if anomaly is not None:
                found.append({"tenant": tenant, "reason": anomaly.text(measure)})
        return pa.Table.from_pylist(found, schema=_FOUND_ARROW)

    return daily.groupBy("tenant").applyInArrow(of_tenant, schema=_FOUND)


class TrafficAnomalies:
    """Reads the lake's usage and reports tenants with an unusual day."""

    name = "traffic-anomalies"
    about = "tenants whose latest whole day differs from their past, with the reason in numbers"
    options: Mapping[str, str] = MappingProxyType(
        {
            _HISTORY: f"days of usage that count, 1 to {HISTORY_DAYS_MAX} (default)",
            _SPREADS: "how many standard deviations from the expectation are usual "
            f"(default {SPREADS_DEFAULT:g})",
            _FACTOR: "up to which multiple or fraction of the expectation a day is usual "
            f"(default {FACTOR_DEFAULT:g})",
            _ON_ANOMALY: "report (default): only log and report; fail: end with an error",
        }
    )

    def run(self, spark: "SparkSession", settings: PipelineSettings) -> None:
        """Report once. Raises: ConfigError: an option is invalid; UnusualTraffic: if asked."""
        options = settings.options
        history = days_option(options, _HISTORY, default=HISTORY_DAYS_MAX, most=HISTORY_DAYS_MAX)
        tolerance, fails = tolerance_of(options), _fails(options)
        days = usage_days(spark, settings, history, SystemClock().wall_ms())
        if days is None:
            _write(settings, ["usage has no whole day yet; no traffic was judged"])
            return
        daily = daily_traffic(days.rows, days.end_day)
        rows = anomalies(daily, days.end_day, tolerance).toArrow().to_pylist()
        found = sorted(f"tenant {row['tenant']}: {row['reason']}" for row in rows)
        day = datetime.fromtimestamp((days.end_day - 1) * DAY_MS / 1000, UTC).date()
        head = f"{day}: {len(found)} anomal{'y' if len(found) == 1 else 'ies'}"
        _write(settings, [head, *found])
        for line in found:
            _LOG.error("traffic-anomaly: %s, %s", day, line)
        if found and fails:
            more = len(found) - _SHOWN_MAX
            shown = "; ".join(found[:_SHOWN_MAX]) + (f"; and {more:,} more" if more > 0 else "")
            raise UnusualTraffic(f"unusual traffic on {day}: {shown}")


def tolerance_of(options: Mapping[str, str]) -> Tolerance:
    """Read the options. Raises: ConfigError."""
    return Tolerance(
        spreads=_number(options, _SPREADS, SPREADS_DEFAULT, 0.0),
        factor=_number(options, _FACTOR, FACTOR_DEFAULT, 1.0),
    )


def _number(options: Mapping[str, str], name: str, default: float, least: float) -> float:
    given = options.get(name, str(default))
    try:
        found = float(given)
    except ValueError:
        found = -1.0
    if not least <= found < float("inf"):
        raise ConfigError(f"{name} is {given!r}: give a number of at least {least:g}")
    return found


def _fails(options: Mapping[str, str]) -> bool:
    given = options.get(_ON_ANOMALY, "report")
    if given not in ("report", "fail"):
        raise ConfigError(f"{_ON_ANOMALY} is {given!r}: choose report or fail")
    return given == "fail"


def _write(settings: PipelineSettings, lines: Sequence[str]) -> None:
    """Replace the report below ``home``; the first line is also logged."""
    _LOG.info("traffic-anomalies: %s", lines[0])
    path = settings.home / _REPORT
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text("\n".join(lines) + "\n")
    os.replace(fresh, path)


TRAFFIC_ANOMALIES: Final = TrafficAnomalies()
