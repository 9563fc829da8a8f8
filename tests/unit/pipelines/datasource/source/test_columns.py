"""Columns for Spark."""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

from opentalos.model.errors import ConfigError
from opentalos.model.message import Compression, StoredBlock
from opentalos.pipelines.datasource.source.columns import DEFAULT_COLUMNS, Projection, spark_schema
from opentalos.sdk import Message
from opentalos.sdk.arrow import decode_batches
from opentalos.sdk.core.blocks import encode_records

EVERYTHING = (*DEFAULT_COLUMNS, "sequence_number", "schema_fingerprint")


def decoded() -> pa.RecordBatch:
    sent = Message(b"v", partition_key="k", sequence_number="9", create_ms=1_500, tag="t")
    block = encode_records([sent], Compression.NONE)
    stored = StoredBlock(7, 1, 2_000, 1_500, 0, block.format, block.payload)
    (batch,) = decode_batches("clicks", 3, [stored], 7)
    return batch


def test_batches_have_exactly_the_schema_that_spark_expects() -> None:
    schema = spark_schema(EVERYTHING)
    batch = Projection(schema)(decoded())
    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    row = batch.to_pylist()[0]
    assert (row["topic"], row["partition"], row["offset"]) == ("clicks", 3, 7)
    assert (row["key"], row["value"], row["tag"], row["sequence_number"]) == ("k", b"v", "t", "9")
    assert (row["create_time"].timestamp(), row["append_time"].timestamp()) == (1.5, 2.0)


def test_a_schema_of_the_user_chooses_columns_and_their_order() -> None:
    schema = StructType([StructField("value", spark_schema(["value"])[0].dataType)])
    schema = schema.add("offset", LongType())
    batch = Projection(schema)(decoded())
    assert batch.schema.equals(to_arrow_schema(schema, timezone="UTC"))
    assert batch.to_pylist() == [{"value": b"v", "offset": 7}]


def test_a_schema_with_other_types_or_names_is_refused() -> None:
    with pytest.raises(ConfigError, match="column 'value' is binary, not string; cast it"):
        Projection(StructType([StructField("value", StringType())]))
    with pytest.raises(ConfigError, match="unknown column 'price'"):
        Projection(StructType([StructField("price", IntegerType())]))
