import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.unit.matrix import matrix
from tests.unit.sds.bed import data, steady

from opentalos.model.datum import DataType, Datum
from opentalos.sds.value_rules import (
    KEY_TYPES,
    column_fault,
    datum_fault,
    in_range,
    suits,
    value_fault,
)

T = DataType


@given(st.sampled_from(DataType).flatmap(data))
@steady
def test_a_value_of_its_type_has_no_fault(datum: Datum) -> None:
    assert datum_fault(datum.type, datum) == ""


@matrix(
    ("type_", "value", "fault"),
    [
        (T.BOOL, 1, "is no truth value"),
        (T.INT8, True, "is no integer"),
        (T.INT8, 128, "does not fit 8 bits"),
        (T.INT16, -32_769, "does not fit 16 bits"),
        (T.INT32, 1.0, "is no integer"),
        (T.FLOAT, 1, "is no floating point number"),
        (T.FLOAT, 0.1, "is not of single precision"),
        (T.FLOAT, 1e39, "does not fit single precision"),
        (T.FLOAT, math.nan, "is NaN"),
        (T.DOUBLE, math.nan, "is NaN"),
        (T.STRING, b"a", "is no text"),
        (T.STRING, "\ud800", "has characters that UTF-8 does not have"),
        (T.BINARY, "a", "is no bytes"),
        (T.RAWBINARY, bytearray(b"a"), "is no bytes"),
        (T.INT8_SET, [1], "is no set"),
        (T.INT8_SET, (1, 300), "has an element that does not fit 8 bits"),
        (T.INT8_SET, (1, 300, 2), "has an element that does not fit 8 bits"),
        (T.INT8_SET, (0, -129, 2), "has an element that does not fit 8 bits"),
        (T.INT8_SET, (0, True, 2), "has an element that is no integer"),
        (T.BOOL_SET, (0, 1), "has an element that is no truth value"),
        (T.STRING_SET, ("a", b"b"), "has an element that is no text"),
        (
            T.STRING_SET,
            ("a", "\ud800"),
            "has an element that has characters that UTF-8 does not have",
        ),
        (T.STRING_SET, (b"a", b"b"), "has an element that is no text"),
        (T.BINARY_SET, ("a", "b"), "has an element that is no bytes"),
        (T.DOUBLE_SET, (1, 2), "has an element that is no floating point number"),
        (T.INT64_SET, (2, 1), "is not in ascending order without repetitions"),
        (T.STRING_SET, ("b", "a"), "is not in ascending order without repetitions"),
        (T.STRING_SET, ("a", "a"), "is not in ascending order without repetitions"),
    ],
)
def test_a_fault_is_reported(type_: DataType, value: Any, fault: str) -> None:
    assert value_fault(type_, value) == fault
    whole = f"is of type {type_.name}, but the given value {fault}"
    assert datum_fault(type_, Datum(type_, value)) == whole


def test_another_type_or_null_is_a_fault() -> None:
    wrong = datum_fault(T.INT8, Datum(T.INT16, 1))
    assert wrong == "is of type INT8, but INT16 was given"
    assert datum_fault(T.INT8, Datum(T.INT8, None)) == "is of type INT8, but null was given"


def test_a_column_takes_types_that_lose_nothing() -> None:
    taken = {(w, g) for w in DataType for g in DataType if suits(w, g) and w is not g}
    integers = (T.INT8, T.INT16, T.INT32, T.INT64)
    wider = {(w, g) for number, w in enumerate(integers) for g in integers[:number]}
    assert taken == wider | {(T.RAWBINARY, T.BINARY)}
    assert all(suits(type_, type_) for type_ in DataType)
    assert column_fault(T.INT32, Datum(T.INT8, 5)) == ""
    assert column_fault(T.INT32, Datum(T.INT8, None)).endswith("but null was given")
    assert datum_fault(T.INT32, Datum(T.INT8, 5)) == "is of type INT32, but INT8 was given"


def test_the_range_of_an_integer_type_is_its_bits() -> None:
    assert in_range(T.INT8, 127)
    assert in_range(T.INT8, -128)
    assert not in_range(T.INT8, 128)
    assert not in_range(T.INT64, -(2**63) - 1)


def test_sets_and_raw_bytes_are_no_keys() -> None:
    assert sorted(set(DataType) - KEY_TYPES) == [T.RAWBINARY, *range(T.BOOL_SET, T.BINARY_SET + 1)]
