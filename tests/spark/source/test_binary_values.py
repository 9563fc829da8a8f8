"""Avro and Protobuf values of topics, by schema fingerprint, in batches and in streams."""

import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import TalosServer
from tests.spark.queries import started
from tests.spark.source.conftest import create

from opentalos.model.errors import ConfigError
from opentalos.pipelines.datasource import decode_avro, decode_protobuf
from opentalos.sdk import Client, Message, SimpleProducer

SALE = {
    "type": "record",
    "name": "Sale",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": ["null", "string"]},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                   "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "items", "type": {"type": "array", "items": "string"}},
    ],
}  # fmt: skip
AT = datetime(2026, 1, 31, 12, 0, 0, 123_000, UTC)


def sale(number: int) -> bytes:
    value = {
        "id": number,
        "user": f"user {number}" if number else None,
        "price": Decimal(number) / 4,
        "at": AT,
        "tags": {"x": number},
        "items": ["a", "b"],
    }
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SALE), value)
    return out.getvalue()


def click_descriptors() -> bytes:
    """message shop.Click { int64 n = 1; repeated string tags = 2; }"""
    found = FileDescriptorSet()
    file = found.file.add(name="click.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Click")
    message.field.add(
        name="n",
        number=1,
        type=FieldDescriptorProto.TYPE_INT64,
        label=FieldDescriptorProto.LABEL_OPTIONAL,
    )
    message.field.add(
        name="tags",
        number=2,
        type=FieldDescriptorProto.TYPE_STRING,
        label=FieldDescriptorProto.LABEL_REPEATED,
    )
    return found.SerializeToString()


def put(server: TalosServer, topic: str, values: Sequence[tuple[bytes, str | None]]) -> None:
    with Client(server.config) as client, SimpleProducer(client, topic) as producer:
        messages = [Message(data, schema_fingerprint=name) for data, name in values]
        producer.put(messages, partition=0)


def load(spark: SparkSession, server: TalosServer, topic: str) -> DataFrame:
    columns = "offset,value,schema_fingerprint"
    return (
        spark.read.format("talos")
        .options(url=server.url, key=server.key, topic=topic, columns=columns)
        .load()
    )


def test_avro_values_are_decoded_and_bad_ones_fail_no_job(
    spark: SparkSession, server: TalosServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(server, "sales", 1)
    put(server, "sales", [(sale(0), "v1"), (b"\x80", "v1"), (b"?", "v2"), (sale(9), "v1")])
    (tmp_path / "v1.avsc").write_text(json.dumps(SALE))
    found = decode_avro(load(spark, server, "sales"), tmp_path)
    assert list(found) == ["v1"]
    assert found["v1"].columns == [
        *("offset", "value", "schema_fingerprint"), *("decoded", "decode_error")
    ]  # fmt: skip
    first, bad, last = found["v1"].orderBy("offset").collect()
    assert (first["offset"], first["decoded"]["user"], first["decode_error"]) == (0, None, None)
    assert (bad["offset"], bad["decoded"]) == (1, None)
    assert bad["decode_error"].startswith("not a value of its Avro schema: ")
    decoded = last["decoded"].asDict()
    assert decoded.pop("at").astimezone(UTC) == AT
    assert decoded == {
        "id": 9,
        "user": "user 9",
        "price": Decimal("2.25"),
        "tags": {"x": 9},
        "items": ["a", "b"],
    }
    total = found["v1"].where("decode_error IS NULL").selectExpr("sum(decoded.price)")
    total.explain()
    assert capsys.readouterr().out.count("ArrowEvalPython") == 1  # each value is decoded once
    assert total.collect()[0][0] == Decimal("2.25")


def test_a_value_above_the_limit_is_not_decoded(spark: SparkSession, server: TalosServer) -> None:
    create(server, "large-values", 1)
    put(server, "large-values", [(sale(1), "v1"), (b"x" * 5_000, "v1")])
    frame = load(spark, server, "large-values")
    found = decode_avro(frame, {"v1": json.dumps(SALE)}, bytes_max=1_000)["v1"]
    reasons = [row[0] for row in found.orderBy("offset").select("decode_error").collect()]
    assert reasons == [None, "the value has 5000 bytes, at most 1000 are decoded"]


def test_a_stream_decodes_protobuf_values(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    create(server, "proto-clicks", 1)
    put(
        server,
        "proto-clicks",
        [(b"\x08\x05\x12\x01a", "v1"), (b"\x08", "v1"), (b"\x08\x07", None), (b"\x08\x06", "v2")],
    )
    frame = (
        spark.readStream.format("talos")
        .options(url=server.url, key=server.key, topic="proto-clicks")
        .option("columns", "offset,value,schema_fingerprint")
        .load()
    )
    schemas: dict[str | None, Any] = {
        "v1": lambda _: click_descriptors(),
        None: click_descriptors(),
    }
    found = decode_protobuf(frame, schemas, "shop.Click")
    rows: dict[str | None, list[Any]] = {}
    for name, decoded in found.items():
        rows[name] = []
        seen = rows[name]

        def take(batch: DataFrame, _: int, seen: list[Any] = seen) -> None:
            seen += batch.select("offset", "decoded", "decode_error").collect()

        write = (
            decoded.writeStream.option("checkpointLocation", str(tmp_path / f"{name}"))
            .foreachBatch(take)
            .trigger(availableNow=True)
        )
        started(write.start).awaitTermination()
    good, bad = rows["v1"]
    assert (good["offset"], good["decoded"].asDict()) == (0, {"n": 5, "tags": ["a"]})
    assert (bad["offset"], bad["decoded"]) == (1, None)
    assert bad["decode_error"].startswith("not a message shop.Click: ")
    assert [(row["offset"], row["decoded"]["n"]) for row in rows[None]] == [(2, 7)]


def test_what_cannot_be_decoded_is_refused_when_it_is_planned(
    spark: SparkSession, server: TalosServer
) -> None:
    create(server, "unplanned", 1)
    frame = load(spark, server, "unplanned")
    with pytest.raises(ConfigError, match="the Avro schema 'v1' is invalid"):
        decode_avro(frame, {"v1": "{"})
    with pytest.raises(
        ConfigError, match="has no column schema_fingerprint: name it in the option"
    ):
        decode_avro(frame.drop("schema_fingerprint"), {"v1": '"string"'})
    with pytest.raises(ConfigError, match="has a column decoded already"):
        decode_avro(frame.withColumnRenamed("offset", "decoded"), {"v1": '"string"'})
