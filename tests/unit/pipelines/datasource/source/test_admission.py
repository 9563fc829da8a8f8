"""Shares of a trigger."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentalos.pipelines.datasource.source.admission import (
    TriggerWait,
    fair_shares,
    rows_within,
)


@given(
    st.dictionaries(st.integers(0, 30), st.integers(0, 10_000), max_size=12),
    st.integers(0, 60_000),
    st.integers(0, 100_000),
)
def test_shares_are_fair_and_use_the_limit(backlog: dict[int, int], limit: int, turn: int) -> None:
    shares = fair_shares(backlog, limit, turn)
    assert shares.keys() == backlog.keys()
    assert sum(shares.values()) == min(limit, sum(backlog.values()))
    largest = max(shares.values(), default=0)
    for partition, share in shares.items():
        assert share <= backlog[partition]
        # A waiting partition got the same share as the others, except for rounding.
        assert share == backlog[partition] or share >= largest - 1


def test_a_small_backlog_does_not_wait_for_a_large_one() -> None:
    assert fair_shares({0: 1_000_000, 1: 10, 2: 1_000_000}, 1_000) == {0: 495, 1: 10, 2: 495}


def test_a_limit_below_the_number_of_partitions_reaches_each_of_them_in_turn() -> None:
    backlog = dict.fromkeys(range(10), 1_000) | {3: 0, 4: 0}
    read = dict.fromkeys(backlog, 0)
    for _ in range(40):
        shares = fair_shares(backlog, 3, sum(read.values()))
        assert sum(shares.values()) == 3
        for partition, rows in shares.items():
            read[partition] += rows
            backlog[partition] -= rows
    waiting = [rows for partition, rows in read.items() if partition not in (3, 4)]
    assert min(waiting) >= 10
    assert max(waiting) <= 25


@given(
    st.dictionaries(
        st.integers(0, 30), st.tuples(st.integers(0, 10_000), st.integers(1, 5_000)), max_size=12
    ),
    st.integers(1, 1_000_000),
    st.integers(0, 1 << 60),
)
def test_bytes_are_shared_fairly_and_exceed_the_limit_by_at_most_one_row(
    waiting: dict[int, tuple[int, int]], bytes_max: int, turn: int
) -> None:
    backlog = {key: rows for key, (rows, _) in waiting.items()}
    sizes = {key: size for key, (_, size) in waiting.items()}
    found = rows_within(backlog, sizes, bytes_max, turn)
    assert found.keys() == backlog.keys()
    assert all(0 <= rows <= backlog[key] for key, rows in found.items())
    taken = {key: rows * sizes[key] for key, rows in found.items()}
    assert sum(taken.values()) <= bytes_max + max(sizes.values(), default=1)
    assert any(found.values()) == any(backlog.values())
    largest = max(taken.values(), default=0)
    wanted = sum(rows * sizes[key] for key, rows in backlog.items())
    for key, rows in found.items():
        # A partition with rows left got as many bytes as any other one, but for less than a row.
        full = rows == backlog[key]
        assert full or taken[key] + sizes[key] + 1 >= min(largest, bytes_max // len(backlog))
        assert full or wanted > bytes_max


def test_large_rows_get_their_share_of_the_bytes() -> None:
    found = rows_within({0: 1_000, 1: 1_000, 2: 3}, {0: 10, 1: 100, 2: 50}, 4_150, 0)
    assert found == {0: 200, 1: 20, 2: 3}


def test_of_rows_above_their_share_each_partition_gets_one_in_turn() -> None:
    backlog = dict.fromkeys(range(10), 1_000_000)
    sizes = {**dict.fromkeys(range(8), 10), 8: 5_000, 9: 5_000}
    read = dict.fromkeys(backlog, 0)
    for _ in range(200):
        rows = rows_within(backlog, sizes, 1_000, sum(read.values()))
        assert rows[8] + rows[9] == 1
        assert min(rows[key] for key in range(8)) >= 9
        for key, count in rows.items():
            read[key] += count
    assert min(read[8], read[9]) >= 50


@pytest.mark.parametrize("step", [1, 2, 81, 1_000])
def test_no_partition_is_passed_over_whatever_the_turn_grows_by(step: int) -> None:
    backlog, sizes = dict.fromkeys(range(4), 1_000), dict.fromkeys(range(4), 90)
    first = [rows_within(backlog, sizes, 100, step * number) for number in range(200)]
    read = [sum(rows[key] for rows in first) for key in range(4)]
    assert sum(read) == 200
    assert min(read) >= 20


def test_a_trigger_waits_for_rows_but_no_longer_than_its_delay() -> None:
    wait = TriggerWait(100, 60)
    assert not wait.waits(1, 1_000.0)
    wait.read(1_000.0)
    assert wait.waits(99, 1_059.9)
    assert not wait.waits(100, 1_000.1)
    assert not wait.waits(1, 1_060.0)
    wait.read(1_060.0)
    assert wait.waits(99, 1_119.9)


def test_without_a_smallest_number_no_trigger_waits() -> None:
    wait = TriggerWait(0, 60)
    wait.read(0.0)
    assert not wait.waits(0, 0.0)
