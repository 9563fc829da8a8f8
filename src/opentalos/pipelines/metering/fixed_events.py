"""Events that never change and may come again: their kind, and rows, each of them once."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

_ARRIVAL = ("source_partition", "source_offset")


def is_kind(value: str, kind: str) -> Column:
    """Whether the message in a column is an event of this kind. Servers write compact JSON, in
    which a text cannot contain this: its quotes are escaped."""
    text = F.lit(f'"kind":"{kind}"')
    return F.coalesce(F.contains(F.col(value), text.cast("binary")), F.lit(False))


def rows_of(events: DataFrame, names: Sequence[str]) -> DataFrame:
    """Valid events as rows of these columns, with the partition and offset that they came from;
    ``minute`` is made of the event's ``minute_ms``."""
    minute = F.timestamp_millis("minute_ms").alias("minute")
    columns = [minute if name == "minute" else F.col(name) for name in names]
    return events.select(*columns, *_ARRIVAL)


def merge_first(
    stored: DataFrame, fresh: DataFrame, names: Sequence[str], key: Sequence[str]
) -> DataFrame:
    """All rows, each key once; the stored one stays, with a null ``source_offset``.

    Args: stored: rows of the table; fresh: rows of ``rows_of``.
    """
    nowhere = (F.lit(None).cast("bigint").alias(name) for name in _ARRIVAL)
    both = stored.select(*names, *nowhere).unionByName(fresh)
    first = Window.partitionBy(*key).orderBy(*(F.asc_nulls_first(name) for name in _ARRIVAL))
    return both.withColumn("_rank", F.row_number().over(first)).where("_rank = 1").drop("_rank")
