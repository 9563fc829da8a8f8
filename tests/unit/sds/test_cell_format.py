import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.matrix import matrix
from tests.unit.sds.bed import data, steady

from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import CorruptLog, NewerFormat
from opentalos.sds.cell_format import (
    ABSENT,
    StoredRow,
    cell_bytes,
    decode_cell,
    decode_row,
    encode_cell,
    encode_header,
)

T = DataType

# These bytes are in stores: a changed one means that rows cannot be read any more.
GOLDEN: list[tuple[DataType, Any, str]] = [
    (T.BOOL, True, "0101"),
    (T.INT8, -2, "02fe"),
    (T.INT16, 258, "030102"),
    (T.INT32, -1, "04ffffffff"),
    (T.INT64, 1, "050000000000000001"),
    (T.FLOAT, 0.5, "063fe0000000000000"),
    (T.DOUBLE, -math.inf, "07fff0000000000000"),
    (T.STRING, "aé", "0861c3a9"),
    (T.STRING, "", "08"),
    (T.BINARY, b"\x00\xff", "0900ff"),
    (T.RAWBINARY, b"x", "0a78"),
    (T.BOOL_SET, (False, True), "640001"),
    (T.INT8_SET, (-1, 1), "65ff01"),
    (T.INT16_SET, (1, 2), "6600010002"),
    (T.INT32_SET, (), "67"),
    (T.INT64_SET, (3,), "680000000000000003"),
    (T.FLOAT_SET, (0.5,), "693fe0000000000000"),
    (T.DOUBLE_SET, (1.0,), "6a3ff0000000000000"),
    (T.STRING_SET, ("", "ab"), "6b00000000000000026162"),
    (T.BINARY_SET, (b"\x00",), "6c0000000100"),
]
HEADER = "01000000018bcfe568000000000000000007"


@matrix(("type_", "value", "raw"), GOLDEN)
def test_the_bytes_of_a_value_never_change(type_: DataType, value: Any, raw: str) -> None:
    assert encode_cell(Datum(type_, value)).hex() == raw
    assert decode_cell(bytes.fromhex(raw)) == Datum(type_, value)


def test_the_golden_values_are_of_every_type() -> None:
    assert {type_ for type_, _, _ in GOLDEN} == set(DataType)


def test_the_bytes_of_a_row_never_change() -> None:
    assert encode_header(1_700_000_000_000, 7, deleted=False).hex() == HEADER
    deleted = bytearray.fromhex(HEADER)
    deleted[1] = 1
    assert encode_header(1_700_000_000_000, 7, deleted=True) == deleted
    assert decode_row({b"!": bytes(deleted)}) == StoredRow(1_700_000_000_000, 7, True, {})
    cells = {b"!": bytes.fromhex(HEADER), "=é".encode(): b"\x02\x05"}
    row = StoredRow(1_700_000_000_000, 7, False, {"é": Datum(T.INT8, 5)})
    assert decode_row(cells) == row


def test_no_cells_are_no_row() -> None:
    assert decode_row({}) is ABSENT


@given(st.sampled_from(DataType).flatmap(data))
@steady
def test_values_round_trip(datum: Datum) -> None:
    raw = encode_cell(datum)
    assert decode_cell(raw) == datum
    assert cell_bytes(datum) == len(raw)


@matrix(
    "raw",
    [
        b"",
        b"\x0b",
        b"\x00a",
        b"\x01\x02\x03",
        b"\x02",
        b"\x05\x00\x00",
        b"\x07" + b"\x7f\xf8" + bytes(6),  # NaN
        b"\x08\xff",
        b"\x65\x01\x01",  # twice the same
        b"\x66\x01",
        b"\x6b\x00\x00",
        b"\x6b\x00\x00\x00\x05ab",
        b"\x6b\x00\x00\x00\x01\xff",
    ],
)
def test_a_damaged_value_is_found(raw: bytes) -> None:
    with pytest.raises(CorruptLog, match="stored"):
        decode_cell(raw)


@given(st.binary(max_size=12))
@steady
def test_any_bytes_are_a_value_or_damaged(raw: bytes) -> None:
    try:
        datum = decode_cell(raw)
    except CorruptLog:
        return
    assert decode_cell(encode_cell(datum)) == datum


@pytest.mark.parametrize(
    "cells",
    [
        {b"=a": b"\x02\x05"},
        {b"!": b""},
        {b"!": bytes.fromhex(HEADER)[:-1]},
        {b"!": bytes.fromhex(HEADER.replace("0100", "0102", 1))},
        {b"!": bytes.fromhex(HEADER), b"?a": b"\x02\x05"},
        {b"!": bytes.fromhex(HEADER), b"=\xff": b"\x02\x05"},
        {b"!": bytes.fromhex(HEADER), b"=a": b"\x02"},
    ],
)
def test_a_damaged_row_is_found(cells: dict[bytes, bytes]) -> None:
    with pytest.raises(CorruptLog, match="stored"):
        decode_row(cells)


def test_a_row_of_a_newer_version_is_left_alone() -> None:
    with pytest.raises(NewerFormat, match="row format 2, this server knows 1"):
        decode_row({b"!": b"\x02whatever", b"?": b""})
