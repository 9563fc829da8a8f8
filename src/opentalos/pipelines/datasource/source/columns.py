"""The columns of a read: their types, and how they are made from the SDK's decoded batches.

Spark checks only the first batch of a task against the schema, so every batch is built with it.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.types import DataType, StructField, StructType

from opentalos.model.errors import ConfigError


class _Column(NamedTuple):
    decoded: str  # its name in opentalos.sdk.arrow.SCHEMA
    spark: DataType
    arrow: Any
    nullable: bool = True


_TIME: Final = pa.timestamp("us", "UTC")
_KNOWN: Final = {
    "topic": _Column("topic", types.StringType(), pa.string(), False),
    "partition": _Column("partition", types.IntegerType(), pa.int32(), False),
    "offset": _Column("offset", types.LongType(), pa.int64(), False),
    "key": _Column("partition_key", types.StringType(), pa.string()),
    "value": _Column("data", types.BinaryType(), pa.binary(), False),
    "type": _Column("message_type", types.IntegerType(), pa.int32()),
    "tag": _Column("tag", types.StringType(), pa.string()),
    "create_time": _Column("create_time", types.TimestampType(), _TIME),
    "append_time": _Column("append_time", types.TimestampType(), _TIME, False),
    "sequence_number": _Column("sequence_number", types.StringType(), pa.string()),
    "schema_fingerprint": _Column("schema_fingerprint", types.StringType(), pa.string()),
}
ALL_COLUMNS: Final = tuple(_KNOWN)
DEFAULT_COLUMNS: Final = ALL_COLUMNS[:9]


def check_columns(names: Sequence[str]) -> tuple[str, ...]:
    """The names. Raises: ConfigError: a name is unknown or duplicated, or there is none."""
    for name in names:
        if name not in _KNOWN:
            raise ConfigError(f"unknown column {name!r}; known: {', '.join(_KNOWN)}")
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"name at least one column, each once: {', '.join(names)}")
    return tuple(names)


def spark_schema(names: Sequence[str]) -> StructType:
    """Spark's types of columns."""
    return StructType([StructField(n, _KNOWN[n].spark, _KNOWN[n].nullable) for n in names])


class Projection:
    """Makes batches of a schema, which may be the user's own: some columns, in any order.

    Raises: ConfigError: a column is unknown or of another type.
    """

    def __init__(self, schema: StructType) -> None:
        check_columns(schema.names)
        for field in schema.fields:
            known = _KNOWN[field.name].spark
            if field.dataType != known:
                raise ConfigError(
                    f"column {field.name!r} is {known.simpleString()}, "
                    f"not {field.dataType.simpleString()}; cast it after the read"
                )
        self._decoded = [_KNOWN[name].decoded for name in schema.names]
        self._schema = pa.schema(
            [pa.field(f.name, _KNOWN[f.name].arrow, f.nullable) for f in schema.fields]
        )

    def __call__(self, decoded: Any) -> Any:
        """The columns of a batch that the SDK decoded."""
        columns = [decoded.column(name) for name in self._decoded]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
