"""No argument, however absurd, makes the accelerator's encoder read outside of what it was given.

What is refused is seen here; what is read outside of a buffer, or overflows, by ``make sanitize``.
"""

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.sdk.arrow.encoders import ENCODERS

I32, I64, BYTES = 5, 6, 8
EDGES = (0, 1, 2**31 - 1, 2**31, 2**59, 2**60 - 1, 2**60, 2**61, 2**62, 2**63 - 2, 2**63 - 1)
NUMBERS = st.sampled_from([*EDGES, *(-number for number in EDGES), -(2**63)])
BUFFERS = st.none() | st.binary(max_size=40)
COLUMNS = st.tuples(st.integers(1, 15), st.sampled_from([I32, I64, BYTES]), NUMBERS) | st.tuples(
    st.integers(1, 15), st.sampled_from([I32, I64, BYTES]), NUMBERS, BUFFERS, BUFFERS, BUFFERS
)
BATCHES = st.tuples(
    st.integers(0, 3) | NUMBERS,
    st.lists(COLUMNS, max_size=3).map(lambda columns: tuple(sorted(columns, key=lambda c: c[0]))),
)


def offsets(*places: int) -> bytes:
    return struct.pack(f"<{len(places)}i", *places)


def misaligned(content: bytes) -> memoryview:
    """As a part of a larger message that arrived in one piece."""
    return memoryview(b"x" + content)[1:]


if (NATIVE := ENCODERS[-1]) is not None:
    Rows = NATIVE.Rows
    ONE_ROW = (1, ((3, BYTES, 0, None, offsets(0, 1), b"a"),))

    @settings(max_examples=300, deadline=None)
    @given(
        batches=st.lists(BATCHES, max_size=3),
        numbers=st.none() | st.lists(NUMBERS.filter(lambda n: n >= -(2**63)), max_size=3),
        limits=st.tuples(NUMBERS, NUMBERS),
    )
    def test_any_numbers_and_buffers_are_encoded_or_refused(
        batches: list[Any], numbers: list[int] | None, limits: tuple[int, int]
    ) -> None:
        chosen = None if numbers is None else struct.pack(f"<{len(numbers)}q", *numbers)
        try:
            payload, end = Rows(tuple(batches), chosen).block(0, limits[0], min(limits[1], 50))
        except ValueError:
            return
        assert payload[:4] == b"V\0\3\0"
        assert 1 <= end <= 50

    @pytest.mark.parametrize("offset", [2**60, 2**61 - 1, 2**62 - 1, 2**63 - 8, 2**63 - 1])
    @pytest.mark.parametrize(
        "column", [(I32, b"\0", None, b"\0" * 4), (I64, None, None, b"\0" * 8)], ids=["i32", "i64"]
    )
    def test_an_offset_whose_bytes_exceed_64_bits_is_refused(offset: int, column: Any) -> None:
        """Unchecked, its end is negative or small, and every buffer seems to be long enough."""
        kind, *buffers = column
        with pytest.raises(ValueError, match="offset beyond every buffer"):
            Rows(((1, ((4, kind, offset, *buffers),)),), None)
        with pytest.raises(ValueError, match="offset beyond every buffer"):
            Rows(((1, ((3, BYTES, offset, None, offsets(0, 1), b"a"),)),), None)

    def test_more_rows_than_64_bits_count_are_refused() -> None:
        for columns in ((), ((4, I64, 5),)):
            with pytest.raises(ValueError, match="too many rows"):
                Rows(((2**63 - 1, columns),), None)
            with pytest.raises(ValueError, match="too many rows"):
                Rows(((2**58, columns),) * 3, None)

    def test_buffers_need_no_alignment() -> None:
        columns = (
            (3, BYTES, 0, None, misaligned(offsets(0, 1, 3)), b"abc"),
            (4, I64, 0, None, None, misaligned(struct.pack("<qq", 1, -2))),
            (6, I32, 0, None, None, misaligned(struct.pack("<ii", 3, -4))),
        )
        numbers = misaligned(struct.pack("<qq", 1, 0))
        payload, end = Rows(((2, columns),), numbers).block(0, 1000, 1000)
        first = b"V\0\3\0\0\0\0\x09\x38\2bc\x16\3\x25\7\0"
        assert (payload, end) == (first + b"V\0\3\0\0\0\0\x08\x38\1a\x16\2\x25\6\0", 2)
