"""The pipeline ``quota-projection``: each tenant's expected traffic, projected from its usage.

The server uses it to decide requests for partitions. A projection uses whole days only. It is dated
by the usage it is made from: if metering stops, projections become old, and the server leaves
requests to a person.
"""

import logging
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from opentalos.adapters.system_clock import SystemClock
from opentalos.pipelines.lake.periods.whole_days import DAY_MS, days_option
from opentalos.pipelines.metering.usage_frame import usage_days
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.quota.traffic_fit import WEEK, Days, fit
from opentalos.pipelines.runtime.connection import client_config
from opentalos.sdk.rest_client import TIMEOUT_S, RestClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MINUTE_S: Final = 60
HISTORY_DAYS_MAX: Final = 63  # nine weeks; older usage does not help to predict the next month
SENT_MAX: Final = 1_000  # projections of one request
RATE_MAX: Final = 1 << 50  # bytes/s, the server's limit
PERMILLE: Final = 1_000
_THURSDAY: Final = 3  # weekday of 1970-01-01, with Monday as 0
_HISTORY: Final = "history-days"
_LOG: Final = logging.getLogger(__name__)
_COLUMNS: Final = ("tenant", "made_ms", "days", "level", "trend_per_day", "season", "spread",
                   "peak", "repeated_peak", "mean")  # fmt: skip
_PROJECTED: Final = (
    "tenant string, made_ms bigint, days int, level bigint, trend_per_day bigint, "
    "season array<bigint>, spread bigint, peak bigint, repeated_peak bigint, mean bigint"
)
_PROJECTED_ARROW: Final = pa.schema(
    [
        ("tenant", pa.string()),
        ("made_ms", pa.int64()),
        ("days", pa.int32()),
        ("level", pa.int64()),
        ("trend_per_day", pa.int64()),
        ("season", pa.list_(pa.int64())),
        ("spread", pa.int64()),
        ("peak", pa.int64()),
        ("repeated_peak", pa.int64()),
        ("mean", pa.int64()),
    ]
)


def daily_traffic(usage: DataFrame, end_day: int) -> DataFrame:
    """The busiest minute and the mean of each tenant and day before ``end_day``.

    Shape:  tenant string; day int, since 1970-01-01 UTC; peak and mean double, bytes/s. Rows with
            zero or negative bytes are ignored; a day without other rows is missing.
    """
    day = F.floor(F.unix_millis("minute") / DAY_MS).cast("int")
    minutes = (
        usage.where(F.col("bytes") > 0)
        .withColumn("day", day)
        .where(F.col("day") < end_day)
        .groupBy("tenant", "day", "minute")
        .agg(F.sum(F.col("bytes").cast("double")).alias("bytes"))
    )
    return minutes.groupBy("tenant", "day").agg(
        (F.max("bytes") / MINUTE_S).alias("peak"),
        (F.sum("bytes") / (DAY_MS / 1000)).alias("mean"),
    )


def projections(daily: DataFrame, end_day: int) -> DataFrame:
    """A projection of each tenant that has traffic in ``daily``, made at the start of a day.

    Shape:  the fields of PUT /quota-projections, one row per tenant.
    """

    def of_tenant(rows: pa.Table) -> pa.Table:
        days = rows.column("day").to_numpy()
        first = int(days.min())
        peaks, means = np.zeros(end_day - first), np.zeros(end_day - first)
        peaks[days - first] = rows.column("peak").to_numpy()
        means[days - first] = rows.column("mean").to_numpy()
        made = projected(rows.column("tenant")[0].as_py(), peaks, means, end_day * DAY_MS)
        return pa.Table.from_pylist([made], schema=_PROJECTED_ARROW)

    return daily.groupBy("tenant").applyInArrow(of_tenant, schema=_PROJECTED)


def projected(tenant: str, peaks: Days, means: Days, made_ms: int) -> dict[str, Any]:
    """The projection of one tenant, in the form of the server's API.

    Args: peaks, means: bytes/s of each day before ``made_ms``, the start of a day, without gaps.
    """
    found = fit(peaks, (made_ms // DAY_MS + _THURSDAY) % WEEK)
    season = [round(PERMILLE * factor) for factor in found.season]
    bounded = np.clip(np.nan_to_num(means), 0.0, RATE_MAX)
    mean = float(np.mean(bounded)) if len(means) else 0.0
    rates = (found.spread, found.peak, found.repeated_peak, mean)
    values = (
        tenant, made_ms, len(peaks), _rate(found.level), _rate(found.trend_per_day), season,
        *map(_rate, rates),
    )  # fmt: skip
    return dict(zip(_COLUMNS, values, strict=True))


class QuotaProjection:
    """Reads the lake's usage, projects each tenant separately, and sends it to the server."""

    name = "quota-projection"
    about = "expected traffic of each tenant, for requests for partitions"
    options: Mapping[str, str] = MappingProxyType(
        {_HISTORY: f"days of usage that count, 1 to {HISTORY_DAYS_MAX} (default)"}
    )

    def run(self, spark: "SparkSession", settings: PipelineSettings) -> None:
        """Project once. Raises: ConfigError: an option is invalid; the server's errors."""
        most = HISTORY_DAYS_MAX
        history = days_option(settings.options, _HISTORY, default=most, most=most)
        days = usage_days(spark, settings, history, SystemClock().wall_ms())
        if days is None:
            _LOG.warning("quota-projection: usage has no whole day yet; nothing was projected")
            return
        daily = daily_traffic(days.rows, days.end_day)
        found = projections(daily, days.end_day).toArrow().to_pylist()
        call = RestClient(client_config(settings, TIMEOUT_S))
        for part in _parts(found):
            call("PUT", "quota-projections", {"projections": part})
        _LOG.info("quota-projection: tenants=%d end_day=%d", len(found), days.end_day)


def _parts(found: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for start in range(0, len(found), SENT_MAX):
        yield found[start : start + SENT_MAX]


def _rate(bytes_per_s: float) -> int:
    return round(max(-RATE_MAX, min(RATE_MAX, bytes_per_s)))


QUOTA_PROJECTION: Final = QuotaProjection()
