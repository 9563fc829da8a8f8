"""Stream messages: golden bytes of both formats and of keys alone, and one error for damage."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentalos.model.change import Change, ChangeKind, StreamView
from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import BadRequest, ValidationFailed
from opentalos.wire.sds.change import decode_change, encode_change

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "sds"
TIME_MS = 1_700_000_000_123
TABLE = "accounts"
LOG, IMAGE, KEYS = StreamView.MUTATE_LOG, StreamView.RECORD_IMAGE, StreamView.KEYS_ONLY
KEY = {"user": Datum(DataType.STRING, "bob"), "day": Datum(DataType.INT32, -20231114)}
ALL_TYPES = {
    "bool": Datum(DataType.BOOL, True),
    "int8": Datum(DataType.INT8, -128),
    "int16": Datum(DataType.INT16, 32767),
    "int32": Datum(DataType.INT32, -(2**31)),
    "int64": Datum(DataType.INT64, 2**63 - 1),
    "float": Datum(DataType.FLOAT, 0.5),
    "double": Datum(DataType.DOUBLE, -0.1),
    "string": Datum(DataType.STRING, "text"),
    "binary": Datum(DataType.BINARY, b"\x00\xff"),
    "bools": Datum(DataType.BOOL_SET, (False, True)),
    "int8s": Datum(DataType.INT8_SET, (-1, 0, 1)),
    "int16s": Datum(DataType.INT16_SET, (-300, 300)),
    "int32s": Datum(DataType.INT32_SET, tuple(range(20))),
    "int64s": Datum(DataType.INT64_SET, ()),
    "floats": Datum(DataType.FLOAT_SET, (0.25,)),
    "doubles": Datum(DataType.DOUBLE_SET, (-1.5, 2.5)),
    "strings": Datum(DataType.STRING_SET, ("a", "b")),
    "binaries": Datum(DataType.BINARY_SET, (b"", b"\xfe")),
    "nothing": Datum(DataType.INT64, None),
}
COUNT = {"count": Datum(DataType.INT64, 12)}
PUT = Change(ChangeKind.PUT, KEY, ALL_TYPES, {}, ALL_TYPES, False, TIME_MS, 3)
INCREMENT = PUT._replace(
    kind=ChangeKind.INCREMENT, columns=COUNT, amounts={"count": Datum(DataType.INT64, 5)}
)
DELETE_ROW = Change(ChangeKind.DELETE, KEY, {}, {}, {}, True, TIME_MS, 4)
DELETE_COLUMNS = PUT._replace(kind=ChangeKind.DELETE, columns=COUNT)
CASES = [
    ("log_put", LOG, PUT),
    ("log_increment", LOG, INCREMENT),
    ("log_delete_row", LOG, DELETE_ROW),
    ("log_delete_columns", LOG, DELETE_COLUMNS),
    ("image", IMAGE, PUT),
    ("image_deleted", IMAGE, DELETE_ROW),
    ("keys_only", KEYS, PUT),
]


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


def published(view: StreamView, change: Change) -> Change:
    """The change as a view publishes it."""
    if view is LOG:
        return change._replace(image={})
    change = change._replace(columns={}, amounts={})
    return change if view is IMAGE else change._replace(image={}, row_deleted=False)


@pytest.mark.parametrize(("name", "view", "change"), CASES)
def test_changes_are_written_as_the_golden_bytes(
    name: str, view: StreamView, change: Change
) -> None:
    assert encode_change(view, TABLE, change, None).hex() == golden(name).hex()


@pytest.mark.parametrize(("name", "view", "change"), CASES)
def test_golden_bytes_decode_to_their_change(name: str, view: StreamView, change: Change) -> None:
    table, read = decode_change(view, golden(name), tuple(KEY), change.sequence)
    assert (table, read) == (TABLE, published(view, change))


@pytest.mark.parametrize("view", StreamView)
def test_a_stream_publishes_its_attributes_and_always_the_key(view: StreamView) -> None:
    chosen = frozenset({"int8"})
    _, read = decode_change(view, encode_change(view, TABLE, PUT, chosen), tuple(KEY))
    assert read.key == KEY
    assert set(read.columns) == ({"int8"} if view is LOG else set())
    assert set(read.image) == ({"int8"} if view is IMAGE else set())


def test_amounts_of_other_attributes_are_not_published() -> None:
    payload = encode_change(LOG, TABLE, INCREMENT, frozenset({"int8"}))
    _, read = decode_change(LOG, payload, tuple(KEY))
    assert (read.columns, read.amounts) == ({}, {})


def test_a_float_is_published_in_single_precision() -> None:
    change = PUT._replace(columns={"float": Datum(DataType.FLOAT, 0.1)})
    _, read = decode_change(LOG, encode_change(LOG, TABLE, change, None), tuple(KEY))
    assert read.columns["float"].value == pytest.approx(0.1, rel=1e-7)
    assert read.columns["float"].value != 0.1


@pytest.mark.parametrize(("name", "view", "_"), CASES)
def test_every_truncation_is_refused(name: str, view: StreamView, _: Change) -> None:
    whole = golden(name)
    for end in range(len(whole)):
        with pytest.raises((BadRequest, ValidationFailed)):
            decode_change(view, whole[:end], tuple(KEY))


def test_bytes_after_the_struct_are_refused() -> None:
    with pytest.raises(BadRequest, match="follow the end"):
        decode_change(LOG, golden("log_put") + b"\0", tuple(KEY))


def test_a_message_without_a_key_column_is_refused() -> None:
    with pytest.raises(BadRequest, match="lacks shop"):
        decode_change(LOG, golden("log_put"), (*KEY, "shop"))


def test_a_log_entry_of_an_unknown_kind_is_refused() -> None:
    kind = golden("log_delete_row").replace(b"\x15\x04\x11", b"\x15\x0e\x11")
    with pytest.raises(BadRequest, match="no known type: 7"):
        decode_change(LOG, kind, tuple(KEY))


@given(st.binary(max_size=200), st.sampled_from(StreamView))
def test_any_bytes_are_read_or_refused(payload: bytes, view: StreamView) -> None:
    try:
        _, change = decode_change(view, payload, ("user",))
    except (BadRequest, ValidationFailed):
        return
    assert set(change.key) <= {"user"}
