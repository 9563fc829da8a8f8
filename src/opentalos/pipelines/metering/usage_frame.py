"""The table "usage" as a DataFrame, for the pipelines that read it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from opentalos.pipelines.lake.lake_table import LakeTable
from opentalos.pipelines.lake.layout import ALL, Span
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.periods.whole_days import DAY_MS, days_before
from opentalos.pipelines.lake.sink import check_lake, table_frame
from opentalos.pipelines.metering.usage_table import LAYOUT, TABLE
from opentalos.pipelines.pipeline import PipelineSettings

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession

_RECENT_MS: Final = 2 * DAY_MS  # in which the newest row is sought before it is sought everywhere


@dataclass(frozen=True, slots=True)
class UsageDays:
    """Usage of whole days before ``end_day``, since 1970-01-01 UTC."""

    end_day: int
    rows: "DataFrame"


def usage_frame(spark: "SparkSession", settings: PipelineSettings, span: Span = ALL) -> "DataFrame":
    """The rows of a span; Spark's workers read only files that may have some.

    Raises: ConfigError: workers of other machines cannot reach the table; NotFound: there is no
            table at the lake's URL; StoreUnavailable.
    """
    return table_frame(spark, _opened(spark, settings), LAYOUT, span)


def usage_scan(spark: "SparkSession", settings: PipelineSettings, span: Span = ALL) -> "ds.Dataset":
    """A snapshot of the files that may have rows of a span, for ``scanned_frame``.

    Raises: as ``usage_frame``.
    """
    return _opened(spark, settings).scan(span)


def usage_days(
    spark: "SparkSession", settings: PipelineSettings, days: int, now_ms: int
) -> UsageDays | None:
    """At most ``days`` whole days, before that of the newest row; None: there is none.

    Rows after ``now_ms`` come from a fast clock and do not count. Raises: as ``usage_frame``.
    """
    table = _opened(spark, settings)
    newest_ms = _newest_ms(spark, table, now_ms)
    found = None if newest_ms is None else days_before(newest_ms, days)
    if found is None:
        return None
    rows = table_frame(spark, table, LAYOUT, found.span)
    return None if rows.isEmpty() else UsageDays(found.end_day, rows)


def _opened(spark: "SparkSession", settings: PipelineSettings) -> LakeTable:
    check_lake(spark, settings, f"table {TABLE}")
    return pipeline_table(settings.home, settings.lake, LAYOUT)


def _newest_ms(spark: "SparkSession", table: LakeTable, now_ms: int) -> int | None:
    for start_ms in (max(0, now_ms - _RECENT_MS), 0):
        rows = table_frame(spark, table, LAYOUT, Span(start_ms, now_ms + 1))
        row = rows.agg(F.max(F.unix_millis(LAYOUT.time))).first()
        if row is not None and row[0] is not None:
            return int(row[0])
    return None
