"""Versioned JSON events out of messages: what can be used, and what goes to the side output.

Everything is decided in the JVM by expressions over columns, so a batch costs no Python worker and
no event can end a job.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

# Sums of many counts stay below a bigint: 2 ** 15 of the largest ones fit.
COUNT_MAX: Final = 1 << 48
AMOUNT_MAX: Final = 1e100  # of what is no whole number; any sum of them is finite
OFFSET_MAX: Final = (1 << 63) - 1
TIME_MS_MAX: Final = 253_402_300_799_999  # the end of the year 9999, the last one with a date

_LOG: Final = logging.getLogger(__name__)
_VERSION: Final = "v"
_CORRUPT: Final = "_corrupt"
_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowNonNumericNumbers": "false",
}


def number(least: float, most: float | None = None) -> dict[str, Any]:
    """Metadata of a field of numbers: its bounds. Without them: 0 to COUNT_MAX for whole numbers,
    -AMOUNT_MAX to AMOUNT_MAX for others."""
    return {"least": least} if most is None else {"least": least, "most": most}


def split_events(
    messages: DataFrame,
    schema: StructType,
    version: int,
    rules: Mapping[str, str] | None = None,
) -> tuple[DataFrame, DataFrame]:
    """Events that can be used, and messages that cannot, each with a reason.

    A message is bad if it is no JSON object, is of a newer version, has a field of another type or
    lacks one that is not nullable, or if a number is out of the bounds of its field's metadata
    (``number``), not finite, or breaks a rule. Unknown fields are ignored.

    Args:    messages: at least the columns partition, offset, value; schema: of the event, without
             the version ``v``; version: the newest one that is understood; rules: reason to an SQL
             condition over the event's fields and the message's columns, as ``message.NAME``.
    Returns: (the schema's columns, source_partition, source_offset), and (partition, offset,
             reason, value). Both come from one input: persist it if both are used.
    """
    read = StructType([*map(_nullable, schema.fields), *_extra_fields()])
    text = F.col("_text")
    event = F.struct(
        F.from_json(text, read, _OPTIONS).alias("_event"),
        # A parser of one value stops at its end; within brackets it sees what follows, too.
        F.try_parse_json(F.concat(F.lit("["), text, F.lit("]"))).alias("_whole"),
    )
    # The optimizer copies an expression to wherever its columns are used, and would parse each
    # message a dozen times; it does not look behind a generator.
    parsed = (
        messages.select(
            F.struct(*messages.columns).alias("message"),
            F.col("value").cast("string").alias("_text"),
        )
        .select("message", "_text", F.inline(F.array(event)))
        .select("message", "_text", "_whole", "_event.*")
    )
    reasons = [_unreadable(), _newer(version), _mistyped(schema)]
    reasons += [reason for field in schema.fields for reason in _wrong(field)]
    reasons += [_reason(text, ~F.coalesce(F.expr(rule), F.lit(False)))
                for text, rule in (rules or {}).items()]  # fmt: skip
    judged = parsed.withColumn("_reason", F.coalesce(*reasons))
    good = judged.where("_reason IS NULL").select(
        *schema.names,
        F.col("message.partition").alias("source_partition"),
        F.col("message.offset").alias("source_offset"),
    )
    bad = judged.where("_reason IS NOT NULL").select(
        "message.partition", "message.offset", F.col("_reason").alias("reason"), "message.value"
    )
    return good, bad


def side_folder(home: Path, name: str) -> Path:
    """Where the messages are that pipeline ``name`` could not use: Parquet, a folder a batch."""
    return home / "side" / name


def write_side(bad: DataFrame, home: Path, name: str, batch_id: int) -> int:
    """Keep the bad messages of one batch below HOME/side/NAME and return how many there are.

    A batch that is repeated has the same rows and writes the same folder again; the first
    message's place in its name keeps it apart from batches of an older checkpoint.
    """
    found = bad.agg(F.count("*"), F.min(F.struct("partition", "offset"))).first()
    assert found is not None  # an aggregate without groups is always one row
    count, first = int(found[0]), found[1]
    if count:
        place = f"batch-{batch_id:010d}-{first['partition']}-{first['offset']}"
        folder = side_folder(home, name) / place
        bad.write.mode("overwrite").parquet(str(folder))
        _LOG.warning("%s: %d bad messages of batch %d are in %s", name, count, batch_id, folder)
    return count


def _nullable(field: StructField) -> StructField:
    return StructField(field.name, field.dataType, True)


def _extra_fields() -> list[StructField]:
    return [StructField(_VERSION, LongType()), StructField(_CORRUPT, StringType())]


def _reason(text: str, condition: Column) -> Column:
    return F.when(condition, F.lit(text))


def _unreadable() -> Column:
    return F.coalesce(
        _reason("empty", F.col("_text").isNull() | (F.length("_text") == 0)),
        _reason("not UTF-8", ~F.is_valid_utf8("_text")),
    )


def _newer(version: int) -> Column:
    told = F.col(_VERSION)
    newer = F.concat(F.lit("newer version: "), told.cast("string"))
    return F.coalesce(
        F.when(told > version, newer),
        _reason("no version", F.col(_CORRUPT).isNull() & told.isNull()),
        _reason("no version", told < 1),
    )


def _mistyped(schema: StructType) -> Column:
    whole = F.col("_whole")
    second = F.try_variant_get(whole, "$[1]", "variant")
    wrong = F.col(_CORRUPT).isNotNull() | whole.isNull() | second.isNotNull()
    for field in schema.fields:
        if isinstance(field.dataType, StringType):  # from_json takes any value as a text
            told = F.try_variant_get(whole, f"$[0].{field.name}", "variant")
            wrong |= F.coalesce(~F.schema_of_variant(told).isin("STRING", "VOID"), F.lit(False))
    return _reason("not JSON of the event's types", wrong)


def _wrong(field: StructField) -> list[Column]:
    column = F.col(f"`{field.name}`")
    found = [] if field.nullable else [_reason(f"missing: {field.name}", column.isNull())]
    wrong = _out_of_bounds(column, field.dataType, field.metadata or {})
    if wrong is not None:
        found.append(_reason(f"out of bounds: {field.name}", wrong))
    return found


def _out_of_bounds(column: Column, kind: DataType, bounds: Mapping[str, Any]) -> Column | None:
    if isinstance(kind, IntegerType | LongType):
        least, most = bounds.get("least", 0), bounds.get("most", COUNT_MAX)
        return ~column.between(least, most)
    if isinstance(kind, DoubleType):
        least, most = bounds.get("least", -AMOUNT_MAX), bounds.get("most", AMOUNT_MAX)
        return ~column.between(least, most)  # nor is NaN, which is above all
    if isinstance(kind, MapType):
        inner = _out_of_bounds(F.lit(0), kind.valueType, bounds)
        if inner is None:
            return None

        def wrong(value: Column) -> Column:
            found = _out_of_bounds(value, kind.valueType, bounds)
            return value.isNull() if found is None else F.coalesce(found, F.lit(True))

        return F.exists(F.map_values(column), wrong)
    return None
