"""Cells of a row family as one value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentalos.adapters.sqlite.cells_format import decode_cells, encode_cells


@given(st.dictionaries(st.binary(max_size=20), st.binary(max_size=50), max_size=8))
def test_cells_read_back(cells: dict[bytes, bytes]) -> None:
    assert decode_cells(encode_cells(cells)) == cells


def test_the_order_of_columns_does_not_matter() -> None:
    assert encode_cells({b"a": b"1", b"b": b"2"}) == encode_cells({b"b": b"2", b"a": b"1"})


def test_a_cut_value_is_noticed() -> None:
    whole = encode_cells({b"a": b"123"})
    for size in range(1, len(whole)):
        with pytest.raises(ValueError, match="cut short"):
            decode_cells(whole[:size])
