"""Typed values: one branch, of the type, within its range."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.matrix import matrix

from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import ValidationFailed
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import columns_from, columns_to, from_struct, to_struct


def made(type_: int | None, **branches: Any) -> sds.Datum:
    return sds.Datum(type=type_, value=sds.Value(**branches))


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)


SCALARS: dict[DataType, st.SearchStrategy[Any]] = {
    DataType.BOOL: st.booleans(),
    DataType.INT8: integers(8),
    DataType.INT16: integers(16),
    DataType.INT32: integers(32),
    DataType.INT64: integers(64),
    DataType.FLOAT: st.floats(width=32, allow_nan=False),
    DataType.DOUBLE: st.floats(allow_nan=False),
    DataType.STRING: st.text(max_size=8),
    DataType.BINARY: st.binary(max_size=8),
}


def values(type_: DataType) -> st.SearchStrategy[Any]:
    if type_ is DataType.RAWBINARY:
        return SCALARS[DataType.BINARY]
    if type_ < DataType.BOOL_SET:
        return SCALARS[type_]
    items = SCALARS[DataType(type_ - DataType.BOOL_SET + 1)]
    return st.sets(items, max_size=4).map(lambda found: tuple(sorted(found)))


DATUMS = st.sampled_from(DataType).flatmap(
    lambda type_: st.builds(Datum, st.just(type_), st.none() | values(type_))
)


@given(DATUMS)
def test_every_value_round_trips(datum: Datum) -> None:
    assert from_struct(to_struct(datum)) == datum


def test_a_set_is_put_in_order_without_repetitions() -> None:
    datum = made(DataType.INT64_SET, int64SetValue=[3, -1, 3, 2])
    assert from_struct(datum) == Datum(DataType.INT64_SET, (-1, 2, 3))


def test_a_float_is_rounded_to_single_precision() -> None:
    rounded = from_struct(made(DataType.FLOAT, doubleValue=0.1))
    assert rounded == Datum(DataType.FLOAT, 0.10000000149011612)
    floats = from_struct(made(DataType.FLOAT_SET, doubleSetValue=[0.1, 0.1000000014]))
    assert floats == Datum(DataType.FLOAT_SET, (0.10000000149011612,))


@pytest.mark.parametrize("value", [math.inf, -math.inf, 0.0])
def test_infinity_is_a_float(value: float) -> None:
    assert from_struct(made(DataType.FLOAT, doubleValue=value)).value == value


@matrix(
    ("type_", "branches"),
    [
        (None, {"boolValue": True}),
        (99, {"boolValue": True}),
        (DataType.BOOL, {}),
        (DataType.BOOL, {"int8Value": 1}),
        (DataType.INT8, {"int8Value": 1, "int16Value": 1}),
        (DataType.INT8, {"int8Value": 1, "nullValue": True}),
        (DataType.INT64, {"int32Value": 1}),
        (DataType.STRING, {"binaryValue": b"x"}),
        (DataType.STRING_SET, {"stringValue": "x"}),
        (DataType.INT8, {"int8Value": 128}),
        (DataType.INT16, {"int16Value": -32769}),
        (DataType.INT32, {"int32Value": 2**31}),
        (DataType.INT64, {"int64Value": 2**63}),
        (DataType.INT16_SET, {"int16SetValue": [1, 32768]}),
        (DataType.FLOAT, {"doubleValue": 1e39}),
        (DataType.DOUBLE_SET, {"doubleSetValue": [math.nan]}),
    ],
)
def test_an_invalid_value_of_its_type_is_refused(
    type_: int | None, branches: dict[str, Any]
) -> None:
    with pytest.raises(ValidationFailed):
        from_struct(made(type_, **branches))


def test_a_datum_without_a_value_is_refused() -> None:
    with pytest.raises(ValidationFailed, match="exactly one branch"):
        from_struct(sds.Datum(type=sds.DataType.BOOL))


def test_an_error_names_its_column() -> None:
    with pytest.raises(ValidationFailed, match="column 'age': 300 does not fit INT8"):
        columns_from({"age": made(DataType.INT8, int8Value=300)})


def test_columns_keep_their_order() -> None:
    columns = {name: Datum(DataType.STRING, name) for name in ("z", "a", "m")}
    assert list(columns_from(columns_to(columns)).items()) == list(columns.items())
    assert columns_from(None) == {}
