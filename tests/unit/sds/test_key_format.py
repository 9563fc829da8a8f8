import math
import struct
from collections.abc import Mapping
from dataclasses import replace
from functools import cmp_to_key
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.matrix import matrix
from tests.unit.sds.bed import KEY, SCHEMA, keyed, keys, steady

from opentalos.model.datum import DataType, Datum
from opentalos.model.errors import CorruptLog, ValidationFailed
from opentalos.model.table import KeyPart, TableSchema
from opentalos.sds.key_format import (
    BUCKETS,
    key_of,
    row_key,
    scan_range,
    shard_of,
    shard_range,
    share_of,
    splits,
)

T = DataType


def one_column(type_: DataType, ascending: bool = True) -> TableSchema:
    return TableSchema(primary=(KeyPart("k", ascending),), attributes={"k": type_})


# These bytes are in stores: a changed one means that rows cannot be found any more.
GOLDEN: list[tuple[DataType, Any, str]] = [
    (T.BOOL, False, "00"),
    (T.BOOL, True, "01"),
    (T.INT8, -128, "00"),
    (T.INT8, 5, "85"),
    (T.INT16, -1, "7fff"),
    (T.INT32, 0, "80000000"),
    (T.INT64, 2**63 - 1, "ffffffffffffffff"),
    (T.INT64, -(2**63), "0000000000000000"),
    (T.FLOAT, 1.5, "bff8000000000000"),
    (T.DOUBLE, 0.0, "8000000000000000"),
    (T.DOUBLE, -0.0, "8000000000000000"),
    (T.DOUBLE, -1.0, "400fffffffffffff"),
    (T.DOUBLE, math.inf, "fff0000000000000"),
    (T.STRING, "", "0000"),
    (T.STRING, "aé", "61c3a90000"),
    (T.STRING, "a\x00b", "6100ff620000"),
    (T.BINARY, b"\xff\x00", "ff00ff0000"),
]


@matrix(("type_", "value", "raw"), GOLDEN)
def test_the_bytes_of_a_key_never_change(type_: DataType, value: Any, raw: str) -> None:
    up, down = one_column(type_), one_column(type_, ascending=False)
    key = {"k": Datum(type_, value)}
    assert row_key(up, key).hex() == raw
    assert row_key(down, key) == bytes(255 - byte for byte in bytes.fromhex(raw))
    assert key_of(up, bytes.fromhex(raw)) == key


def test_the_bytes_of_a_hashed_key_never_change() -> None:
    assert row_key(SCHEMA, KEY).hex() == "0015753100008000000000000007"
    assert shard_of(SCHEMA, row_key(SCHEMA, KEY)) == 0


def compared(schema: TableSchema, left: Mapping[str, Datum], right: Mapping[str, Datum]) -> int:
    """Order by values alone; groups of a hashed table have no order."""
    for part in (*schema.group, *schema.primary):
        here: Any = left[part.attribute].value
        there: Any = right[part.attribute].value
        if here != there:
            return (1 if here > there else -1) * (1 if part.ascending else -1)
    return 0


@given(st.data())
@steady
def test_bytes_are_in_the_order_of_values(draw: st.DataObject) -> None:
    schema = draw.draw(keyed())
    found = draw.draw(st.lists(keys(schema), min_size=2, max_size=5))
    by_bytes = sorted(found, key=lambda key: row_key(schema, key))

    def order(left: dict[str, Datum], right: dict[str, Datum]) -> int:
        return compared(schema, left, right)

    by_values = sorted(found, key=cmp_to_key(order))
    if schema.hashed:
        by_values.sort(key=lambda key: row_key(schema, key)[:2])
    assert by_bytes == by_values


@given(st.data())
@steady
def test_keys_round_trip_and_lie_in_their_shard(draw: st.DataObject) -> None:
    schema = draw.draw(keyed())
    key = draw.draw(keys(schema))
    raw = row_key(schema, key)
    assert key_of(schema, raw) == key
    assert list(key_of(schema, raw)) == list(schema.key_columns)
    start, stop = shard_range(schema, shard_of(schema, raw))
    assert start <= raw
    assert not stop or raw < stop


@given(st.integers(1, 256))
@steady
def test_shards_part_the_buckets_evenly(shards: int) -> None:
    schema = TableSchema(
        group=(KeyPart("g"),),
        primary=(KeyPart("k"),),
        hashed=True,
        shards=shards,
        attributes={"g": T.INT64, "k": T.INT64},
    )
    ranges = [shard_range(schema, number) for number in range(shards)]
    assert [start for start, _ in ranges] == [b"", *splits(schema)]
    assert [stop for _, stop in ranges] == [*splits(schema), b""]
    edges = [0, *(int.from_bytes(split) for split in splits(schema)), BUCKETS]
    sizes = [after - before for before, after in pairwise(edges)]
    assert max(sizes) - min(sizes) <= 1
    for number, edge in enumerate(edges[:-1]):
        assert shard_of(schema, edge.to_bytes(2)) == number
        assert shard_of(schema, (edges[number + 1] - 1).to_bytes(2)) == number


@given(st.data(), st.integers(1, 64))
@steady
def test_shares_cut_the_buckets_as_shards_do(draw: st.DataObject, shares: int) -> None:
    schema = draw.draw(keyed())
    raw = row_key(schema, draw.draw(keys(schema)))
    share = share_of(schema, raw, shares)
    assert 0 <= share < shares
    if schema.hashed:
        assert shard_of(replace(schema, shards=shares), raw) == share


def test_rows_without_a_group_spread_over_shares() -> None:
    counts = [0] * 8
    for number in range(800):
        counts[share_of(PAIR, row_key(PAIR, pair(number, 1)), 8)] += 1
    assert min(counts) > 50


def test_groups_spread_over_shards() -> None:
    schema = TableSchema(
        group=(KeyPart("g"),),
        primary=(KeyPart("k"),),
        hashed=True,
        shards=8,
        attributes={"g": T.INT64, "k": T.INT64},
    )
    counts = [0] * 8
    for number in range(8_000):
        key = {"g": Datum(T.INT64, number), "k": Datum(T.INT64, 1)}
        counts[shard_of(schema, row_key(schema, key))] += 1
    assert min(counts) > 900


A, B, S = Datum(T.INT64, 1), Datum(T.INT64, 2), Datum(T.STRING, "s")


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ({"user": S}, "key column at is missing"),
        ({**KEY, "name": S}, "column name is not part of the key"),
        ({**KEY, "at": S}, "key column at is of type INT64, but STRING was given"),
        ({**KEY, "at": Datum(T.INT64, None)}, "key column at is of type INT64, but null"),
        ({**KEY, "at": Datum(T.INT64, 2**63)}, "does not fit 64 bits"),
        ({**KEY, "user": Datum(T.STRING, "\ud800")}, "UTF-8"),
    ],
)
def test_a_wrong_key_is_refused(key: dict[str, Datum], wrong: str) -> None:
    with pytest.raises(ValidationFailed, match=wrong):
        row_key(SCHEMA, key)


def test_nan_is_not_a_key() -> None:
    with pytest.raises(ValidationFailed, match="NaN"):
        row_key(one_column(T.DOUBLE), {"k": Datum(T.DOUBLE, math.nan)})


@pytest.mark.parametrize(
    ("type_", "raw"),
    [
        (T.BOOL, b"\x02"),
        (T.BOOL, b""),
        (T.INT32, b"\x80\x00\x00"),
        (T.INT32, b"\x80\x00\x00\x00\x00"),
        (
            T.DOUBLE,
            struct.pack(">Q", struct.unpack(">Q", struct.pack(">d", math.nan))[0] | 1 << 63),
        ),
        (T.DOUBLE, b"\x7f" + b"\xff" * 7),
        (T.STRING, b"abc"),
        (T.STRING, b"a\x00b\x00\x00"),
        (T.STRING, b"\xff\x00\x00"),
        (T.BINARY, b"\x00\x00\x00"),
    ],
)
def test_a_damaged_key_is_found(type_: DataType, raw: bytes) -> None:
    with pytest.raises(CorruptLog, match="stored key"):
        key_of(one_column(type_), raw)


def test_a_key_in_a_wrong_bucket_is_damaged() -> None:
    raw = row_key(SCHEMA, KEY)
    with pytest.raises(CorruptLog, match="bucket"):
        key_of(SCHEMA, b"\x00\x00" + raw[2:])


@given(st.data())
@steady
def test_any_bytes_are_a_key_or_damaged(draw: st.DataObject) -> None:
    schema = draw.draw(keyed())
    raw = draw.draw(st.binary(max_size=20))
    try:
        key = key_of(schema, raw)
    except CorruptLog:
        return
    assert row_key(schema, key) == raw


def inside(span: tuple[bytes, bytes], raw: bytes) -> bool:
    return span[0] <= raw and (not span[1] or raw < span[1])


@given(st.data())
@steady
def test_a_scan_covers_what_lies_between_its_keys(draw: st.DataObject) -> None:
    schema = draw.draw(keyed())
    names = schema.key_columns
    sizes = st.integers(len(schema.group) if schema.hashed else 1, len(names))
    first, last, other = (draw.draw(keys(schema)) for _ in range(3))
    if draw.draw(st.booleans()):  # near each other
        last = {**first, names[-1]: last[names[-1]]}
        other = {**first, names[-1]: other[names[-1]]}
    start = {name: first[name] for name in names[: draw.draw(sizes)]}
    stop = {name: last[name] for name in names[: draw.draw(sizes)]}
    raw = row_key(schema, other)
    above_start = raw >= row_key(schema, first) or is_prefix(start, other)
    below_stop = raw < row_key(schema, last) if len(stop) == len(names) else None
    try:
        span = scan_range(schema, start, stop)
    except ValidationFailed:
        assert row_key(schema, first) > row_key(schema, last)
        return
    if len(start) == len(names):
        assert not inside(span, raw) or above_start
    if below_stop is not None:
        assert not inside(span, raw) or below_stop
        if above_start and below_stop:
            assert inside(span, raw)
    if is_prefix(start, other) and is_prefix(stop, other) and below_stop is None:
        assert inside(span, raw)


def is_prefix(part: Mapping[str, Datum], key: Mapping[str, Datum]) -> bool:
    return all(key[name] == datum for name, datum in part.items())


@given(st.data())
@steady
def test_a_prefix_alone_covers_exactly_its_records(draw: st.DataObject) -> None:
    schema = draw.draw(keyed())
    names = schema.key_columns
    least = len(schema.group) if schema.hashed else 0
    count = draw.draw(st.integers(least, len(names) - 1))
    key, other = draw.draw(keys(schema)), draw.draw(keys(schema))
    prefix = {name: key[name] for name in names[:count]}
    reverse = draw.draw(st.booleans())
    span = scan_range(schema, prefix, prefix, reverse=reverse)
    assert inside(span, row_key(schema, key))
    assert inside(span, row_key(schema, other)) is is_prefix(prefix, other)


PAIR = TableSchema(primary=(KeyPart("a"), KeyPart("b")), attributes={"a": T.INT64, "b": T.INT64})


def pair(a: int, b: int) -> dict[str, Datum]:
    return {"a": Datum(T.INT64, a), "b": Datum(T.INT64, b)}


def first(a: int) -> dict[str, Datum]:
    return {"a": Datum(T.INT64, a)}


@matrix(
    ("start", "stop", "reverse", "found"),
    [
        ({}, {}, False, [(1, 1), (1, 2), (2, 1), (3, 1)]),
        ({}, {}, True, [(1, 1), (1, 2), (2, 1), (3, 1)]),
        (pair(1, 2), {}, False, [(1, 2), (2, 1), (3, 1)]),
        (pair(1, 2), pair(2, 1), False, [(1, 2)]),
        (pair(1, 2), pair(1, 2), False, []),
        (pair(1, 2), pair(1, 2), True, []),
        (first(1), first(2), False, [(1, 1), (1, 2), (2, 1)]),
        ({}, pair(1, 2), False, [(1, 1)]),
        ({}, first(1), True, [(1, 1), (1, 2), (2, 1), (3, 1)]),
        ({}, pair(1, 2), True, [(2, 1), (3, 1)]),
        (pair(2, 1), pair(1, 1), True, [(1, 2), (2, 1)]),
        (pair(2, 1), {}, True, [(1, 1), (1, 2), (2, 1)]),
        (first(2), first(1), True, [(1, 1), (1, 2), (2, 1)]),
    ],
)
def test_scans_begin_with_their_start_and_end_before_their_stop(
    start: dict[str, Datum], stop: dict[str, Datum], reverse: bool, found: list[tuple[int, int]]
) -> None:
    span = scan_range(PAIR, start, stop, reverse=reverse)
    stored = [(1, 1), (1, 2), (2, 1), (3, 1)]
    assert [item for item in stored if inside(span, row_key(PAIR, pair(*item)))] == found


@pytest.mark.parametrize(
    ("start", "stop", "reverse", "wrong"),
    [
        (pair(2, 1), pair(1, 1), False, "above the stop key"),
        (pair(1, 1), pair(2, 1), True, "below the stop key"),
        ({"b": A}, {}, False, "key column b needs a before it"),
        ({"a": A, "x": A}, {}, False, "column x is not part of the key"),
        ({**pair(1, 1), "x": A}, {}, False, "column x is not part of the key"),
        ({"a": S}, {}, False, "is of type INT64, but STRING was given"),
    ],
)
def test_a_wrong_range_is_refused(
    start: dict[str, Datum], stop: dict[str, Datum], reverse: bool, wrong: str
) -> None:
    with pytest.raises(ValidationFailed, match=wrong):
        scan_range(PAIR, start, stop, reverse=reverse)


def test_a_hashed_group_is_given_whole() -> None:
    schema = TableSchema(
        group=(KeyPart("a"), KeyPart("b")),
        primary=(KeyPart("c"),),
        hashed=True,
        attributes={"a": T.INT64, "b": T.INT64, "c": T.INT64},
    )
    with pytest.raises(ValidationFailed, match="all its columns: b"):
        scan_range(schema, {"a": A}, {})
    span = scan_range(schema, {"a": A, "b": B}, {"a": A, "b": B})
    assert span[0][:2] == span[1][:2] == row_key(schema, {"a": A, "b": B, "c": A})[:2]


def test_a_scan_needs_an_index_that_is_there() -> None:
    with pytest.raises(ValidationFailed, match="no index by_name"):
        scan_range(SCHEMA, {}, {}, index="by_name")


@pytest.mark.parametrize("ascending", [True, False])
def test_nothing_lies_after_the_largest_prefix(ascending: bool) -> None:
    schema = TableSchema(
        primary=(KeyPart("a", ascending), KeyPart("b")), attributes={"a": T.INT8, "b": T.INT8}
    )
    edge = Datum(T.INT8, 127 if ascending else -128)
    assert scan_range(schema, {"a": edge}, {"a": edge}) == (b"\xff", b"")
    whole = {"a": edge, "b": Datum(T.INT8, 127)}
    assert scan_range(schema, {}, whole, reverse=True) == (b"\xff\xff\x00", b"")
