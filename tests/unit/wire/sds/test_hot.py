"""Calls read at once are what the generic codec reads, and everything odd is left to it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire.sds.test_datum import DATUMS

from opentalos.model.datum import Columns, DataType, Datum
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import columns_from, columns_to
from opentalos.wire.sds.hot import decode_hot, put_reply
from opentalos.wire.thrift import (
    ThriftError,
    ThriftProtocol,
    decode_call,
    encode_call,
    encode_reply,
)

TABLES = sds.SERVICES["TableService"]
BINARY = ThriftProtocol.BINARY
COLUMNS = st.dictionaries(st.text(max_size=5), DATUMS, max_size=6)
SCALAR = {"k": Datum(DataType.STRING, "é"), "n": Datum(DataType.INT64, -1)}


def put_call(columns: Columns, **more: Any) -> bytes:
    request = sds.PutRequest(tableName="tablé", record=columns_to(columns), **more)
    return encode_call(BINARY, TABLES.methods["put"], 77, request)


def plain(columns: Columns) -> bool:
    return all(
        column.value is not None and column.type < DataType.BOOL_SET for column in columns.values()
    )


@given(COLUMNS)
def test_a_put_is_read_as_the_generic_codec_reads_it(columns: Columns) -> None:
    body = put_call(columns)
    hot = decode_hot(body)
    assert (hot is not None) == plain(columns)
    if hot is not None:
        call = decode_call(BINARY, TABLES, body)
        assert (hot.method, hot.seqid) == (call.method, call.seqid)
        assert hot.request.tableName == call.request.tableName
        assert columns_from(hot.request.record) == columns_from(call.request.record)


@given(COLUMNS)
def test_a_get_is_read_as_the_generic_codec_reads_it(columns: Columns) -> None:
    request = sds.GetRequest(tableName="t", keys=columns_to(columns))
    hot = decode_hot(encode_call(BINARY, TABLES.methods["get"], -5, request))
    assert (hot is not None) == plain(columns)
    if hot is not None:
        assert (hot.method.name, hot.seqid, hot.request.tableName) == ("get", -5, "t")
        assert columns_from(hot.request.keys) == columns_from(request.keys)


@pytest.mark.parametrize(
    "body",
    [
        put_call(SCALAR, condition=sds.SimpleCondition(rowExist=True)),
        encode_call(BINARY, TABLES.methods["get"], 1, sds.GetRequest(tableName="t", attributes=[])),
        encode_call(BINARY, TABLES.methods["put"], 1, sds.PutRequest()),
        encode_call(BINARY, TABLES.methods["getServerTime"], 1),
        encode_call(ThriftProtocol.COMPACT, TABLES.methods["put"], 1, sds.PutRequest()),
        put_call(SCALAR) + b"\0",
        b"",
    ],
)
def test_other_calls_are_left_to_the_generic_codec(body: bytes) -> None:
    assert decode_hot(body) is None


def test_a_float_that_is_too_large_is_left_to_the_generic_codec() -> None:
    request = sds.PutRequest(
        tableName="t",
        record={"f": sds.Datum(type=sds.DataType.FLOAT, value=sds.Value(doubleValue=1e300))},
    )
    assert decode_hot(encode_call(BINARY, TABLES.methods["put"], 1, request)) is None


@given(st.data())
def test_damaged_calls_are_read_alike_or_not_at_all(data: st.DataObject) -> None:
    whole = bytearray(put_call(SCALAR))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    body = bytes(whole[: data.draw(st.integers(place, len(whole)))])
    hot = decode_hot(body)
    if hot is not None:
        call = decode_call(BINARY, TABLES, body)
        assert hot.seqid == call.seqid
        assert columns_from(hot.request.record) == columns_from(call.request.record)
    else:
        try:
            decode_call(BINARY, TABLES, body)
        except ThriftError:
            pass


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.booleans())
def test_a_reply_is_what_the_generic_codec_writes(seqid: int, success: bool) -> None:
    result = sds.PutResult(success=success)
    expected = encode_reply(BINARY, TABLES.methods["put"], seqid, result)
    assert put_reply(seqid, success=success) == expected
