"""Shares of a trigger."""

from hypothesis import given
from hypothesis import strategies as st

from opentalos.pipelines.datasource.source.admission import TriggerWait, fair_shares


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
