"""Decodes JSON values of rows that were read, by the schema fingerprint that producers set."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as f
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPTIONS: Final = {"mode": "FAILFAST"}  # by default Spark makes null of what it cannot decode


def decode_json(
    frame: "DataFrame", schemas: Mapping[str, StructType | str]
) -> dict[str, "DataFrame"]:
    """The rows of each schema fingerprint, with their value as the struct column ``decoded``.

    For batches and streams. A query fails at a value that is not JSON of its schema. Rows of
    other fingerprints are in no frame.

    Args: frame: with the columns ``value`` and ``schema_fingerprint``; schemas: Spark's schema or
    its DDL, such as ``"user string, price double"``, by fingerprint.
    """
    return {
        name: frame.where(f.col("schema_fingerprint") == name).withColumn(
            "decoded", f.from_json(f.col("value").cast("string"), schema, _OPTIONS)
        )
        for name, schema in schemas.items()
    }
