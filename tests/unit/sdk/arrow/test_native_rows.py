"""The accelerator's blocks are those of numpy and Arrow, and no buffer is trusted."""

import itertools
import struct
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripts.build_accelerator import ROWS
from tests.unit.sdk.arrow.encoders import ENCODERS
from tests.unit.sdk.arrow.test_arrow import MESSAGES, table_of

from opentalos.model.message import Compression, MessageBlock
from opentalos.sdk.arrow import encode_batch, native_rows
from opentalos.sdk.core.values import Message

NONE = Compression.NONE
TIMES = st.none() | st.sampled_from([0, -1, 1, 1700000000000, 2**62])


def offsets(*places: int) -> bytes:
    return struct.pack(f"<{len(places)}i", *places)


def chunked(table: pa.Table, ends: Sequence[int]) -> pa.Table:
    """The same rows, each column in chunks of its own, which share buffers."""
    columns = []
    for number, column in enumerate(table.columns):
        places = sorted(
            {0, len(column), *(end + number for end in ends if end + number < len(column))}
        )
        whole = column.combine_chunks()
        parts = [whole.slice(a, b - a) for a, b in itertools.pairwise(places)]
        columns.append(pa.chunked_array(parts, column.type))
    return pa.Table.from_arrays(columns, names=table.column_names)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_rows_in_any_order_give_the_blocks_of_a_table_of_them(data: st.DataObject) -> None:
    messages: list[Message] = data.draw(st.lists(MESSAGES, max_size=12))
    count = len(messages)
    chosen = data.draw(st.none() | st.lists(st.integers(0, max(count - 1, 0)), max_size=count))
    rows = None if chosen is None else np.array(chosen, np.int64)
    table = chunked(table_of(messages), data.draw(st.lists(st.integers(1, 12), max_size=3)))
    left_out = data.draw(st.sets(st.sampled_from(table.column_names), max_size=4)) - {"data"}
    table = table.drop_columns(sorted(left_out))
    limits = (data.draw(st.sampled_from([1, 60, 200, 1 << 20])), data.draw(st.sampled_from([1, 3])))
    create_ms = data.draw(TIMES)
    made: list[list[MessageBlock]] = []
    for native in ENCODERS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native_rows, "NATIVE", native)
            patch.setattr("opentalos.sdk.arrow.encode._WINDOW_ROWS_MAX", 5)
            made.append(list(encode_batch(table, NONE, *limits, create_ms, rows)))
    assert all(blocks == made[0] for blocks in made)
    assert sum(block.messages for block in made[0]) == (count if rows is None else len(rows))


@pytest.mark.parametrize("bytes_max", [100, 1000, 30_000])
def test_windows_that_their_bytes_cut_give_the_same_blocks(bytes_max: int) -> None:
    sizes = [10] * 9 + [5000] + [100] * 7 + [9000, 1, 1, 1]
    table = pa.table({"data": [b"x" * size for size in sizes]})
    rows = np.arange(len(sizes))[::2]
    made = []
    for native in ENCODERS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native_rows, "NATIVE", native)
            patch.setattr("opentalos.sdk.arrow.encode._WINDOW_ROWS_MAX", 4)
            patch.setattr("opentalos.sdk.arrow.encode._WINDOW_BYTES_MAX", 4000)
            made.append(
                [
                    *encode_batch(table, NONE, bytes_max),
                    *encode_batch(table, NONE, bytes_max, rows=rows),
                ]
            )
    assert all(blocks == made[0] for blocks in made)


def test_rows_outside_of_the_table_are_refused(encoder: ModuleType | None) -> None:
    table = pa.table({"data": [b"a", b"b"]})
    kind = pa.ArrowIndexError if encoder is None else ValueError
    for row in (-1, 2, 2**62):
        with pytest.raises(kind):
            list(encode_batch(table, NONE, rows=np.array([0, row])))


def test_both_sides_name_one_interface() -> None:
    assert f"#define INTERFACE {native_rows.INTERFACE} " in ROWS.read_text()


WRONG: list[tuple[Any, str]] = [
    ((2, ((3, 8, 0, None, offsets(0, 1), b"ab"),)), "too few offsets"),
    ((1, ((3, 8, 1, None, offsets(0, 1), b"ab"),)), "too few offsets"),
    ((1, ((3, 8, 0, None, None, b"ab"),)), "too few offsets"),
    ((1, ((3, 8, -1, None, offsets(0, 1), b"ab"),)), "negative offset"),
    ((9, ((3, 8, 0, b"\xff", offsets(*range(10)), b"x" * 9),)), "too few bits"),
    ((1, ((4, 6, 0, None, None, b"\0" * 7),)), "too few values"),
    ((1, ((6, 5, 0, None, None, None),)), "too few values"),
    ((1, ((3, 7, 0, None, offsets(0, 1), b"a"),)), "unknown kind"),
    ((1, ((3, 8, 5),)), "constant bytes"),
    ((1, ((3, 8, 0, None, offsets(0, 1), b"a"), (3, 8, 0, None, offsets(0, 1), b"a"))), "order"),
    ((1, ((16, 8, 0, None, offsets(0, 1), b"a"),)), "order"),
    ((-1, ()), "negative number of rows"),
    ((1, tuple((field, 6, 1) for field in range(1, 18))), "too many columns"),
]

if (NATIVE := ENCODERS[-1]) is not None:
    Rows = NATIVE.Rows

    @pytest.mark.parametrize(("batch", "reason"), WRONG)
    def test_buffers_that_do_not_hold_the_rows_are_refused(batch: Any, reason: str) -> None:
        good = (1, ((3, 8, 0, None, offsets(0, 1), b"a"),))
        for batches in ((batch,), (good, batch)):
            with pytest.raises(ValueError, match=f"{reason}|different columns"):
                Rows(batches, None)

    @pytest.mark.parametrize("ends", [(-1, 1), (1, 0), (0, 3), (2**31 - 2, 2**31 - 1)])
    def test_offsets_outside_of_the_values_are_refused(ends: tuple[int, int]) -> None:
        rows = Rows(((1, ((3, 8, 0, None, offsets(*ends), b"ab"),)),), None)
        with pytest.raises(ValueError, match="outside of the table"):
            rows.block(0, 100, 100)

    def test_arguments_of_other_types_are_refused() -> None:
        good = (1, ((3, 8, 0, None, offsets(0, 1), b"a"),))
        for batches, numbers in (([good], None), ((5,), None), ((good,), 5), (((1, (5,)),), None)):
            with pytest.raises((TypeError, SystemError)):
                Rows(batches, numbers)
        with pytest.raises(ValueError, match="64 bits"):
            Rows((good,), b"1234")
        for start in (-1, 1):
            with pytest.raises(ValueError, match="no such row"):
                Rows((good,), None).block(start, 1, 1)

    def test_empty_batches_are_passed_over() -> None:
        empty = (0, ((3, 8, 0, None, None, None),))
        one = (1, ((3, 8, 0, None, offsets(0, 1), b"a"),))
        rows = Rows((empty, one, empty, empty, one, empty), np.array([1, 0, 1]))
        payload, end = rows.block(0, 1000, 1000)
        assert (payload, end) == (b"V\0\3\0\0\0\0\4\x38\1a\0" * 3, 3)

    def test_buffers_are_released_with_the_rows() -> None:
        held = bytearray(b"a")
        rows = Rows(((1, ((3, 8, 0, None, offsets(0, 1), held),)),), None)
        with pytest.raises(BufferError):
            held.append(1)
        del rows
        held.append(1)
        with pytest.raises(ValueError, match="too few"):
            Rows(((2, ((3, 8, 0, None, offsets(0, 1), held),)),), None)
        held.append(1)
