"""Protobuf values by schema fingerprint. The descriptors are built as protoc writes them."""

import pickle
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pool, message_factory, timestamp_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.sdk.arrow.fetched_table import table

from opentalos.model.errors import BadRequest, ConfigError
from opentalos.sdk.arrow import decode_protobuf
from opentalos.sdk.arrow.schemas.decoded_column import decoded_column
from opentalos.sdk.arrow.schemas.protobuf_values import ProtobufDecoder

TYPES = {
    name.removeprefix("TYPE_").lower(): number for name, number in FieldDescriptorProto.Type.items()
}
REPEATED = FieldDescriptorProto.LABEL_REPEATED


def add(
    message: DescriptorProto, name: str, kind: str, *, of: str = "", repeated: bool = False
) -> FieldDescriptorProto:
    field = message.field.add(name=name, number=len(message.field) + 1)
    field.type = TYPES[kind]
    field.label = REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
    if of:
        field.type_name = of
    return field


def order() -> FileDescriptorSet:
    """message shop.Order, with one field of each kind."""
    file = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    state = file.enum_type.add(name="State")
    state.value.add(name="NEW", number=0)
    state.value.add(name="PAID", number=5)
    item = file.message_type.add(name="Item")
    add(item, "name", "string")
    found = file.message_type.add(name="Order")
    for kind in TYPES:
        if kind not in ("group", "message", "enum"):
            add(found, f"a_{kind}", kind)
    maybe = add(found, "maybe", "int32")
    maybe.proto3_optional, maybe.oneof_index = True, 0
    found.oneof_decl.add(name="_maybe")
    add(found, "state", "enum", of=".shop.State")
    add(found, "states", "enum", of=".shop.State", repeated=True)
    add(found, "item", "message", of=".shop.Item")
    add(found, "items", "message", of=".shop.Item", repeated=True)
    add(found, "numbers", "sint64", repeated=True)
    add(found, "at", "message", of=".google.protobuf.Timestamp")
    entry = found.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    add(entry, "key", "string")
    add(entry, "value", "message", of=".shop.Item")
    add(found, "tags", "message", of=".shop.Order.TagsEntry", repeated=True)
    times = FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(times)
    return FileDescriptorSet(file=[times, file])


def small(kind: str) -> bytes:
    """message shop.Small with one field."""
    file = FileDescriptorProto(name="small.proto", package="shop", syntax="proto3")
    add(file.message_type.add(name="Small"), "n", kind)
    return FileDescriptorSet(file=[file]).SerializeToString()


def class_of(descriptors: bytes, name: str) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in FileDescriptorSet.FromString(descriptors).file:
        pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


ORDER = order().SerializeToString()
DECODER = ProtobufDecoder("v1", ORDER, "shop.Order")


def test_a_message_is_decoded_with_all_its_types() -> None:
    sent = class_of(ORDER, "shop.Order")(
        a_double=0.5, a_float=0.25, a_int64=-1, a_uint64=(1 << 64) - 1, a_int32=-2,
        a_fixed64=1 << 63, a_fixed32=(1 << 32) - 1, a_bool=True, a_string="text", a_bytes=b"\xff",
        a_uint32=(1 << 32) - 1, a_sfixed32=-3, a_sfixed64=-4, a_sint32=-5, a_sint64=-6,
        maybe=0, state=5, states=[0, 7], item={"name": "i"}, items=[{"name": "j"}, {}],
        numbers=[1, -1], tags={"t": {"name": "k"}},
    )  # fmt: skip
    sent.at.FromDatetime(datetime(2026, 1, 31, 12, 0, 0, 123_456))
    column, reasons = decoded_column(DECODER, pa.array([sent.SerializeToString(), b""]), 1_000)
    assert reasons.to_pylist() == [None, None]
    full, empty = column.to_pylist()
    assert full == {
        "a_double": 0.5, "a_float": 0.25, "a_int64": -1, "a_uint64": Decimal((1 << 64) - 1),
        "a_int32": -2, "a_fixed64": Decimal(1 << 63), "a_fixed32": (1 << 32) - 1, "a_bool": True,
        "a_string": "text", "a_bytes": b"\xff", "a_uint32": (1 << 32) - 1, "a_sfixed32": -3,
        "a_sfixed64": -4, "a_sint32": -5, "a_sint64": -6, "maybe": 0, "state": "PAID",
        "states": ["NEW", "7"], "item": {"name": "i"}, "items": [{"name": "j"}, {"name": ""}],
        "numbers": [1, -1], "at": datetime(2026, 1, 31, 12, 0, 0, 123_456, UTC),
        "tags": [("t", {"name": "k"})],
    }  # fmt: skip
    assert (empty["maybe"], empty["item"], empty["at"]) == (None, None, None)
    assert (empty["a_int64"], empty["a_string"], empty["state"]) == (0, "", "NEW")
    assert (empty["items"], empty["tags"]) == ([], [])


def test_each_fingerprint_has_its_schema_and_a_bad_value_its_reason(tmp_path: Path) -> None:
    (tmp_path / "v1.desc").write_bytes(small("int32"))
    (tmp_path / "v2.desc").write_bytes(small("string"))
    number = class_of(small("int32"), "shop.Small")(n=5).SerializeToString()
    text = class_of(small("string"), "shop.Small")(n="text").SerializeToString()
    rows = table((number, "v1"), (text, "v2"), (b"\x08", "v1"), (b"\x0a\x01\xff", "v2"))
    found = decode_protobuf(rows, tmp_path, "shop.Small")
    assert list(found) == ["v1", "v2"]
    assert found["v1"]["decoded"].to_pylist() == [{"n": 5}, None]
    assert found["v2"]["decoded"].to_pylist() == [{"n": "text"}, None]
    for name, offset in (("v1", 12), ("v2", 13)):
        assert found[name]["offset"].to_pylist()[1] == offset
        first, second = found[name]["decode_error"].to_pylist()
        assert first is None
        assert second.startswith("not a message shop.Small: ")
    with pytest.raises(BadRequest, match="no schema for the fingerprint v2"):
        decode_protobuf(rows, {"v1": small("int32")}, "shop.Small")


def test_the_name_of_the_message_may_differ() -> None:
    rows = table((b"\x08\x05", "v1"), (b"\x0a\x01i", None))
    schemas = {"v1": small("int32"), None: ORDER}
    found = decode_protobuf(rows, schemas, {"v1": "shop.Small", None: "shop.Item"})
    assert found["v1"]["decoded"].to_pylist() == [{"n": 5}]
    assert found[None]["decoded"].to_pylist() == [{"name": "i"}]
    with pytest.raises(
        ConfigError, match="type of the schema of messages without fingerprint is missing"
    ):
        decode_protobuf(rows, schemas, {"v1": "shop.Small"})


def test_a_time_beyond_all_calendars_is_null_with_a_reason() -> None:
    far = class_of(ORDER, "shop.Order")()
    far.at.seconds = 1 << 60
    column, reasons = decoded_column(DECODER, pa.array([far.SerializeToString(), b""]), 1_000)
    assert [row is None for row in column.to_pylist()] == [True, False]
    assert "does not fit" in reasons.to_pylist()[0]


@given(st.binary(max_size=300))
def test_any_bytes_are_decoded_or_have_a_reason(value: bytes) -> None:
    column, reasons = decoded_column(DECODER, pa.array([value], pa.binary()), 1_000)
    assert column.is_valid().to_pylist()[0] == (reasons.to_pylist()[0] is None)


def test_a_decoder_can_be_sent_to_other_processes() -> None:
    copy = pickle.loads(pickle.dumps(ProtobufDecoder("v1", small("int32"), "shop.Small")))
    assert copy.decode(b"\x08\x05") == {"n": 5}
    assert copy.type == pa.struct([pa.field("n", pa.int32())])


def recursive() -> bytes:
    file = FileDescriptorProto(name="tree.proto", package="shop", syntax="proto3")
    tree = file.message_type.add(name="Tree")
    add(tree, "children", "message", of=".shop.Tree", repeated=True)
    return FileDescriptorSet(file=[file]).SerializeToString()


@pytest.mark.parametrize(
    ("descriptors", "name", "says"),
    [
        (b"no descriptors", "shop.Order", "the Protobuf descriptors 'v1' are invalid: .*protoc"),
        (small("int32"), "shop.Order", "'v1' have no message shop.Order"),
        (FileDescriptorSet(file=order().file[1:]).SerializeToString(), "shop.Order", "are invalid"),
        (recursive(), "shop.Tree", "the message shop.Tree contains itself"),
    ],
)
def test_descriptors_that_cannot_be_a_column_are_refused(
    descriptors: bytes, name: str, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        decode_protobuf(table(), {"v1": descriptors}, name)
