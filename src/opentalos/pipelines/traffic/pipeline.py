"""The pipeline ``traffic-weights``: virtual nodes of the servers from the traffic of past days.

The server computes the weights and reports the effect. Unless it is a dry run, the pipeline sets
them and the controller moves partitions. Meant to run once a day.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from opentalos.adapters.system_clock import SystemClock
from opentalos.model.errors import ConfigError
from opentalos.model.message import PartitionKey
from opentalos.pipelines.lake.periods.whole_days import DAY_MS, days_option
from opentalos.pipelines.metering.usage_frame import usage_days
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.runtime.connection import client_config
from opentalos.pipelines.traffic.report import PATH, question, report
from opentalos.sdk.rest_client import TIMEOUT_S, RestClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAYS_DEFAULT: Final = 7  # the latest day contributes 70 % of the expected traffic
DAYS_MAX: Final = 31
BUDGET_DEFAULT: Final = 2.0  # percent
COUNT_MAX: Final = (1 << 63) - 1  # bytes per day; larger sums are capped
_DAYS: Final = "days"
_BUDGET: Final = "budget"
_DRY_RUN: Final = "dry-run"
_REPORT: Final = "weights/latest.txt"
_LOG: Final = logging.getLogger(__name__)


def partition_days(usage: DataFrame, end_day: int) -> DataFrame:
    """Bytes of each partition and day before ``end_day``.

    Shape:  day int, since 1970-01-01 UTC; topic string; partition int; bytes bigint, > 0.
    """
    day = F.floor(F.unix_millis("minute") / DAY_MS).cast("int").alias("day")
    total = F.sum(F.col("bytes").cast("decimal(38,0)"))
    return (
        usage.where(F.col("bytes") > 0)
        .groupBy(day, "topic", "partition")
        .agg(F.least(total, F.lit(COUNT_MAX)).cast("bigint").alias("bytes"))
        .where(F.col("day") < end_day)
    )


def traffic_by_day(rows: pa.Table) -> Sequence[Mapping[PartitionKey, int]]:
    """Rows of ``partition_days``, from the first day with traffic to the last, oldest first."""
    days: dict[int, dict[PartitionKey, int]] = {}
    columns = (rows.column(name).to_pylist() for name in ("day", "topic", "partition", "bytes"))
    for day, topic, partition, count in zip(*columns, strict=True):
        days.setdefault(day, {})[PartitionKey(topic, partition)] = count
    return [days.get(day, {}) for day in range(min(days, default=0), max(days, default=-1) + 1)]


class TrafficWeights:
    """Reads the lake's usage, requests weights from the server, reports and sets them."""

    name = "traffic-weights"
    about = "virtual nodes of the servers from the traffic of past days; once a day"
    options: Mapping[str, str] = MappingProxyType(
        {
            _DAYS: f"whole days of usage that count, 1 to {DAYS_MAX} (default {DAYS_DEFAULT})",
            _BUDGET: f"percent of all partitions that may move (default {BUDGET_DEFAULT:g})",
            _DRY_RUN: "true: only show what would change",
        }
    )

    def run(self, spark: "SparkSession", settings: PipelineSettings) -> None:
        """Propose and set once. Raises: ConfigError: an option is invalid; the server's errors."""
        options = settings.options
        days = days_option(options, _DAYS, default=DAYS_DEFAULT, most=DAYS_MAX)
        budget, dry_run = _budget(options), _dry_run(options)
        call = RestClient(client_config(settings, TIMEOUT_S))
        if not call("GET", "cluster")["clustered"]:
            self._show(settings, ["the server is not in a cluster; no weight was changed"])
            return
        found = usage_days(spark, settings, days, SystemClock().wall_ms())
        if found is None:
            self._show(settings, ["usage has no whole day yet; no weight was changed"])
            return
        traffic = traffic_by_day(partition_days(found.rows, found.end_day).toArrow())
        proposal: dict[str, Any] = call("POST", PATH, question(traffic, budget))
        shown = list(report(proposal, len(traffic)))
        if dry_run:
            shown.append("dry run: no weight was changed")
        else:
            call("PUT", "cluster/weights", {"servers": proposal["weights"]})
            shown.append("the weights are set; the controller moves the partitions")
        self._show(settings, shown)

    def _show(self, settings: PipelineSettings, lines: Sequence[str]) -> None:
        """Write the report to the log and to a file below ``home``."""
        for line in lines:
            _LOG.info("%s: %s", self.name, line)
        path = settings.home / _REPORT
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_suffix(".new")
        fresh.write_text("\n".join(lines) + "\n")
        os.replace(fresh, path)


def _budget(options: Mapping[str, str]) -> float:
    given = options.get(_BUDGET, str(BUDGET_DEFAULT))
    try:
        budget = float(given)
    except ValueError:
        budget = -1.0
    if not 0 <= budget <= 100:
        raise ConfigError(f"{_BUDGET} is {given!r}: give a percentage from 0 to 100")
    return budget


def _dry_run(options: Mapping[str, str]) -> bool:
    given = options.get(_DRY_RUN, "false")
    if given not in ("true", "false"):
        raise ConfigError(f"{_DRY_RUN} is {given!r}: choose true or false")
    return given == "true"


TRAFFIC_WEIGHTS: Final = TrafficWeights()
