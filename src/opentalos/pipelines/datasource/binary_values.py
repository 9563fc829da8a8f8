"""Decodes Avro and Protobuf values of rows that were read, by schema fingerprint, without a JAR.

Schemas are found and checked where the query is planned. Spark's workers are sent the decoders and
need the same extra as the driver.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from opentalos.model.errors import ConfigError
from opentalos.sdk.arrow.schemas.avro_values import avro_decoders
from opentalos.sdk.arrow.schemas.decoded_column import VALUE_BYTES_MAX, Decoder, decoded_column
from opentalos.sdk.arrow.schemas.protobuf_values import MessageNames, protobuf_decoders
from opentalos.sdk.arrow.schemas.schema_sources import Schemas

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_DECODED: Final = ("decoded", "decode_error")
_BOTH: Final = "decoded_with_error"  # dropped again


def decode_avro(
    frame: "DataFrame", schemas: Schemas, *, bytes_max: int = VALUE_BYTES_MAX
) -> dict[str | None, "DataFrame"]:
    """The rows of each schema fingerprint, with their Avro value as the column ``decoded``.

    For batches and streams. A value that cannot be decoded is null, and ``decode_error`` says why.
    Rows of other fingerprints are in no frame.

    Args:   frame: with the columns ``value`` and ``schema_fingerprint``; schemas: as for
            ``opentalos.sdk.arrow.decode_avro``, files are those of the driver; bytes_max: of a
            value that is decoded.
    Raises: ConfigError: a schema is invalid, a column is missing or its name is taken; ImportError:
            the extra ``avro`` is not installed.
    """
    return _frames(frame, avro_decoders(schemas), bytes_max)


def decode_protobuf(
    frame: "DataFrame",
    schemas: Schemas,
    message: MessageNames,
    *,
    bytes_max: int = VALUE_BYTES_MAX,
) -> dict[str | None, "DataFrame"]:
    """The rows of each schema fingerprint, with their Protobuf value as the column ``decoded``.

    As ``decode_avro``, with schemas and ``message`` of ``opentalos.sdk.arrow.decode_protobuf``.
    """
    return _frames(frame, protobuf_decoders(schemas, message), bytes_max)


def _frames(
    frame: "DataFrame", decoders: Mapping[str | None, Decoder], bytes_max: int
) -> dict[str | None, "DataFrame"]:
    missing = [name for name in ("value", "schema_fingerprint") if name not in frame.columns]
    if missing:
        raise ConfigError(f"the frame has no column {missing[0]}: name it in the option columns")
    taken = [name for name in (*_DECODED, _BOTH) if name in frame.columns]
    if taken:
        raise ConfigError(f"the frame has a column {taken[0]} already: rename it")
    found = {}
    for name, decoder in decoders.items():
        rows = frame.where(f.col("schema_fingerprint").eqNullSafe(f.lit(name)))
        both = rows.withColumn(_BOTH, _decoded(decoder, bytes_max))
        found[name] = both.select(*frame.columns, *(f"{_BOTH}.{column}" for column in _DECODED))
    return found


def _decoded(decoder: Decoder, bytes_max: int) -> "Column":
    """A struct of the decoded value and the reason why there is none."""

    def decode(values: pa.Array) -> pa.Array:  # Spark reads from this what kind it is
        return pa.StructArray.from_arrays(
            decoded_column(decoder, values, bytes_max), names=list(_DECODED)
        )

    kind = StructType(
        [
            StructField(_DECODED[0], from_arrow_type(decoder.type)),
            StructField(_DECODED[1], StringType()),
        ]
    )
    # Spark would decode a second time for a filter by decode_error, before the columns are made.
    udf = f.arrow_udf(decode, kind).asNondeterministic()  # type: ignore[attr-defined]
    column: Column = udf(f.col("value"))
    return column
