"""Windows depend on the rows alone, not on the batches in which they come."""

import itertools
from collections.abc import Sequence

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from opentalos.pipelines.datasource.sink.windows import windows

ROWS = st.lists(st.tuples(st.binary(max_size=12), st.none() | st.text(max_size=3)), max_size=40)


def batches(rows: Sequence[tuple[bytes, str | None]], cuts: Sequence[int]) -> list[pa.RecordBatch]:
    """The rows in batches that end at the cuts; some are empty."""
    ends = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    schema = pa.schema([("value", pa.binary()), ("key", pa.string())])
    return [
        pa.RecordBatch.from_pylist(
            [{"value": value, "key": key} for value, key in rows[begin:end]], schema
        )
        for begin, end in itertools.pairwise(ends)
    ]


def cut(rows: Sequence[tuple[bytes, str | None]], cuts: Sequence[int]) -> list[list[bytes]]:
    found = windows(batches(rows, cuts), ("value", "key"), rows_max=7, bytes_max=20)
    return [window.column("value").to_pylist() for window in found]


@settings(deadline=None)
@given(ROWS, st.lists(st.integers(0, 40), max_size=6))
def test_other_batches_give_the_same_windows(
    rows: list[tuple[bytes, str | None]], cuts: list[int]
) -> None:
    assert cut(rows, cuts) == cut(rows, [])


@settings(deadline=None)
@given(ROWS)
def test_windows_hold_all_rows_in_order_and_keep_to_their_bounds(
    rows: list[tuple[bytes, str | None]],
) -> None:
    found = cut(rows, [3])
    assert [value for window in found for value in window] == [value for value, _ in rows]
    sizes = iter([len(value) + len((key or "").encode()) for value, key in rows])
    taken = [[next(sizes) for _ in window] for window in found]
    assert all(len(window) == 1 or sum(window) <= 20 for window in taken)
    assert all(0 < len(window) <= 7 for window in taken)
    # None could have taken the next one's first row.
    for window, following in itertools.pairwise(taken):
        assert len(window) == 7 or sum(window) + following[0] > 20
