"""Avro values by schema fingerprint."""

import io
import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sdk.arrow.fetched_table import table

from opentalos.model.errors import BadRequest, ConfigError
from opentalos.sdk.arrow import decode_avro
from opentalos.sdk.arrow.schemas.avro_values import AvroDecoder
from opentalos.sdk.arrow.schemas.decoded_column import decoded_column

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9,
                                   "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "key", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
        {"name": "before", "type": ["State", "null"]},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "ratio", "type": ["float", "double"]},
        {"name": "items", "type": {"type": "array", "items": {
            "type": "record", "name": "Item", "fields": [
                {"name": "name", "type": "string"},
                {"name": "tags", "type": {"type": "map", "values": ["null", "long"]}},
            ]}}},
        {"name": "first", "type": ["null", "Item"]},
    ],
}  # fmt: skip
VALUE = {
    "id": 7,
    "user": None,
    "price": Decimal("12.50"),
    "day": date(2026, 1, 31),
    "at": datetime(2026, 1, 31, 12, 0, 0, 123_000, UTC),
    "local": datetime(2026, 1, 31, 12, 0, 0, 123_456),
    "clock": 5,
    "key": "d6b1",
    "state": "PAID",
    "before": "NEW",
    "hash": b"\x01\x02",
    "ratio": 0.5,
    "items": [{"name": "a", "tags": {"x": 1, "y": None}}, {"name": "b", "tags": {}}],
    "first": {"name": "a", "tags": {"z": 3}},
}
SMALL = {"type": "record", "name": "Small", "fields": [{"name": "n", "type": "int"}]}


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def plain(schema: Any) -> Any:
    """The schema without logical types that the writer would want other values for."""
    text = json.dumps(schema)
    for name in ("time-millis", "uuid"):
        text = text.replace(f', "logicalType": "{name}"', "")
    return json.loads(text)


def test_a_record_is_decoded_with_all_its_types() -> None:
    decoder = AvroDecoder("v1", json.dumps(ORDER).encode())
    column, reasons = decoded_column(decoder, pa.array([encoded(plain(ORDER), VALUE)]), 1_000)
    assert reasons.to_pylist() == [None]
    found = column.to_pylist()[0]
    pairs = [{"name": "a", "tags": [("x", 1), ("y", None)]}, {"name": "b", "tags": []}]
    assert found == {**VALUE, "items": pairs, "first": {"name": "a", "tags": [("z", 3)]}}
    assert decoder.type.field("at").type == pa.timestamp("us", "UTC")
    assert decoder.type.field("price").type == pa.decimal128(9, 2)
    assert not decoder.type.field("id").nullable
    assert decoder.type.field("user").nullable


def test_each_fingerprint_has_its_schema_and_a_bad_value_its_reason(tmp_path: Path) -> None:
    (tmp_path / "v1.avsc").write_text(json.dumps(SMALL))
    (tmp_path / "v2.avsc").write_text('"string"')
    good = encoded(SMALL, {"n": 5})
    rows = table(
        (good, "v1"), (encoded("string", "text"), "v2"), (b"", "v1"), (good + b"x", "v1"),
        (b"\x80", "v1"), (b"\x08\xff\xff\xff\xff", "v2"), (b"\x7fab", "v2"),
    )  # fmt: skip
    found = decode_avro(rows, tmp_path)
    assert list(found) == ["v1", "v2"]
    assert found["v1"]["offset"].to_pylist() == [10, 12, 13, 14]
    assert found["v1"]["decoded"].to_pylist() == [{"n": 5}, None, None, None]
    reasons = found["v1"]["decode_error"].to_pylist()
    assert reasons[0] is None
    assert all(why.startswith("not a value of its Avro schema: ") for why in reasons[1:])
    assert reasons[2].endswith("1 bytes follow it")
    assert found["v2"]["decoded"].to_pylist() == ["text", None, None]
    assert found["v2"]["partition"].to_pylist() == [1, 1, 1]
    with pytest.raises(BadRequest, match="no schema for the fingerprint v2"):
        decode_avro(rows, {"v1": json.dumps(SMALL)})


def test_a_large_value_is_not_decoded() -> None:
    rows = table((encoded("string", "x" * 100), "v1"))
    found = decode_avro(rows, {"v1": '"string"'}, bytes_max=50)
    assert found["v1"]["decoded"].to_pylist() == [None]
    assert found["v1"]["decode_error"].to_pylist() == [
        "the value has 102 bytes, at most 50 are decoded"
    ]


@given(st.binary(max_size=300))
def test_any_bytes_are_decoded_or_have_a_reason(value: bytes) -> None:
    column, reasons = decoded_column(ANY, pa.array([value], pa.binary()), 1_000)
    assert column.is_valid().to_pylist()[0] == (reasons.to_pylist()[0] is None)


ANY = AvroDecoder("v1", json.dumps(ORDER).encode())


def test_a_decoder_can_be_sent_to_other_processes() -> None:
    copy = pickle.loads(pickle.dumps(AvroDecoder(None, json.dumps(SMALL).encode())))
    assert copy.decode(encoded(SMALL, {"n": -1})) == {"n": -1}
    assert copy.type == pa.struct([pa.field("n", pa.int32(), nullable=False)])


def record(*types: Any) -> str:
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(types)]
    return json.dumps({"type": "record", "name": "R", "fields": fields})


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        ("{", "the Avro schema 'v1' is invalid: "),
        ("5", "the Avro schema 'v1' is invalid: "),
        ('{"type": "record"}', "is invalid"),
        (record("no.Such"), "is invalid"),
        (record(["null", "R"]), "the type R contains itself"),
        (record(["null", "int", "string"]), "a union of 2 types is not supported"),
        (record("null"), "the type null alone is not supported"),
        (record({"type": "array", "items": ["null"]}), "a union of 0 types"),
        (
            record({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}),
            "an array of items that take no bytes",
        ),
        (
            record({"type": "bytes", "logicalType": "decimal", "precision": 40}),
            "a decimal has the precision 40: use 1 to 38",
        ),
        ("[" * 100_000, "is nested too deeply|is invalid"),
    ],
)
def test_a_schema_that_cannot_be_a_column_is_refused(schema: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        decode_avro(table(), {"v1": schema})
