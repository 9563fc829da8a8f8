"""Versioned JSON events from messages: valid events, and invalid messages for the side output.

All checks are column expressions in the JVM, so a batch needs no Python worker and no event can
fail a job.
"""

from collections.abc import Mapping
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
AMOUNT_MAX: Final = 1e100  # of floating-point numbers; any sum of them is finite
OFFSET_MAX: Final = (1 << 63) - 1
# How far a sender's clock may be ahead of the server's and of the driver's.
AHEAD_MS: Final = 3_600_000
TIME_MS_MAX: Final = 253_402_300_799_999  # the end of the year 9999, the last valid date

REASON: Final = "_reason"  # why a message is invalid
_VERSION: Final = "v"
_CORRUPT: Final = "_corrupt"
_OPTIONS: Final = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowNonNumericNumbers": "false",
}


def number(minimum: float, maximum: float | None = None) -> dict[str, Any]:
    """Metadata of a numeric field: its bounds.

    Defaults: 0 to COUNT_MAX for integers, -AMOUNT_MAX to AMOUNT_MAX for floating-point numbers.
    """
    return {"min": minimum} if maximum is None else {"min": minimum, "max": maximum}


def not_ahead(column: str) -> dict[str, str]:
    """The rule that a time is not in the future, by the append time of its message and by the clock
    here: the clock of the server that appended the message may be the fast one.

    Args: column: Unix milliseconds. The messages need their append_time.
    """
    times = ("message.append_time", "current_timestamp()")
    # Decimals, since Spark writes any other constant into the code that it compiles, and would
    # compile the checks again for each batch.
    now = ", ".join(f"CAST(unix_millis({time}) AS DECIMAL(20, 0))" for time in times)
    return {"in the future": f"{column} <= least({now}) + {AHEAD_MS}"}


class EventCheck:
    """Which messages are valid events of one kind, and why the others are not.

    A message is invalid if it is not a JSON object, has a newer version, has a field of another
    type, lacks a field that is not nullable, or if a number is out of its bounds (``number``), not
    finite, or breaks a rule. Unknown fields are ignored.

    The columns are made once, since Spark takes longer to make than to use them in a small batch;
    they may be used in any session of the same Java process.

    Args: schema: of the event, without the version ``v``; version: the newest supported one; rules:
          by reason, an SQL condition over the event's fields and the message's columns, as
          ``message.NAME``.
    """

    def __init__(
        self, schema: StructType, version: int, rules: Mapping[str, str] | None = None
    ) -> None:
        self.schema = schema
        read = StructType([*map(_nullable, schema.fields), *_extra_fields()])
        text = F.col("_text")
        event = F.struct(
            F.from_json(text, read, _OPTIONS).alias("_event"),
            # The parser stops at the end of one value; within brackets it also reads what follows.
            F.try_parse_json(F.concat(F.lit("["), text, F.lit("]"))).alias("_whole"),
        )
        # The optimizer copies an expression to every use of its columns and would parse each
        # message a dozen times; it does not copy a generator.
        parsed = F.inline(F.array(event))
        reasons = [_unreadable(), _newer(version), _mistyped(schema)]
        reasons += [reason for field in schema.fields for reason in _wrong(field)]
        reasons += [_reason(text, ~F.coalesce(F.expr(rule), F.lit(False)))
                    for text, rule in (rules or {}).items()]  # fmt: skip
        message, whole = F.expr("struct(*)").alias("message"), F.col("value").cast("string")
        message_text = [F.col("message"), F.col("_text")]
        fields = [F.col(f"`{name}`") for name in schema.names]
        self._stages = (
            [message, whole.alias("_text")],
            [*message_text, parsed],
            [*message_text, F.col("_whole"), F.col("_event.*")],
            [F.col("message"), *fields, F.coalesce(*reasons).alias(REASON)],
        )

    def judged(self, messages: DataFrame) -> DataFrame:
        """All messages, each as ``message`` with the fields of its event and ``REASON``, which is
        null for a valid event. Persist it if it is used twice.

        Args: messages: at least the columns partition, offset, value.
        """
        for columns in self._stages:
            messages = messages.select(*columns)
        return messages

    def good(self, judged: DataFrame) -> DataFrame:
        """Valid events: the schema's columns, source_partition, source_offset."""
        return judged.where(f"{REASON} IS NULL").select(
            *self.schema.names,
            F.col("message.partition").alias("source_partition"),
            F.col("message.offset").alias("source_offset"),
        )


def bad_messages(judged: DataFrame) -> DataFrame:
    """Invalid messages: partition, offset, reason, value."""
    return judged.where(f"{REASON} IS NOT NULL").select(
        "message.partition", "message.offset", F.col(REASON).alias("reason"), "message.value"
    )


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
    given = F.col(_VERSION)
    newer = F.concat(F.lit("newer version: "), given.cast("string"))
    return F.coalesce(
        F.when(given > version, newer),
        _reason("no version", F.col(_CORRUPT).isNull() & given.isNull()),
        _reason("no version", given < 1),
    )


def _mistyped(schema: StructType) -> Column:
    whole = F.col("_whole")
    second = F.try_variant_get(whole, "$[1]", "variant")
    wrong = F.col(_CORRUPT).isNotNull() | whole.isNull() | second.isNotNull()
    for field in schema.fields:
        if isinstance(field.dataType, StringType):  # from_json takes any value as a text
            value = F.try_variant_get(whole, f"$[0].{field.name}", "variant")
            wrong |= F.coalesce(~F.schema_of_variant(value).isin("STRING", "VOID"), F.lit(False))
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
        return ~column.between(bounds.get("min", 0), bounds.get("max", COUNT_MAX))
    if isinstance(kind, DoubleType):
        # NaN is out of bounds as well: it compares as larger than every number.
        return ~column.between(bounds.get("min", -AMOUNT_MAX), bounds.get("max", AMOUNT_MAX))
    if isinstance(kind, MapType):
        inner = _out_of_bounds(F.lit(0), kind.valueType, bounds)
        if inner is None:
            return None

        def wrong(value: Column) -> Column:
            found = _out_of_bounds(value, kind.valueType, bounds)
            return value.isNull() if found is None else F.coalesce(found, F.lit(True))

        return F.exists(F.map_values(column), wrong)
    return None
