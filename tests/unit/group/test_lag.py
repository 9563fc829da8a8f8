"""Sums of lag over arrays say the same as each partition's own lag."""

from array import array
from random import Random

from tests.unit.matrix import matrix

from opentalos.group.lag import LARGEST_MAX, checkpoints_of, lags_of, summary_of
from opentalos.model.message import OffsetRange


def test_a_group_without_checkpoints_lags_by_all_that_is_retained() -> None:
    found = lags_of(array("q", [0, 5, 3]), array("q", [0, 9, 3]), checkpoints_of({}, 3))
    assert list(found.values()) == [(4, 1, 5)]
    summary = summary_of(found)
    assert (summary.lag, summary.most, summary.behind) == (4, 4, 1)


def test_there_is_no_lag_at_the_end_of_each_log() -> None:
    found = lags_of(array("q", [0, 2]), array("q", [4, 2]), checkpoints_of({0: 3, 1: 1}, 2))
    assert summary_of(found).largest == []


def test_checkpoints_of_partitions_beyond_the_count_are_left_out() -> None:
    assert list(checkpoints_of({1: 7, 2: 9}, 2)) == [-1, 7]


@matrix("seed", range(20))
def test_sums_are_those_of_the_partitions(seed: int) -> None:
    draw = Random(seed)
    starts = array("q", [draw.choice((0, 3, 50)) for _ in range(40)])
    nexts = array("q", [start + draw.choice((0, 0, 1, 30)) for start in starts])
    checkpoints = array("q", [draw.choice((-1, start, following - 1, following + 4, start - 1))
                              for start, following in zip(starts, nexts, strict=True)])  # fmt: skip
    each = [
        OffsetRange(start, following).lag(checkpoint)
        for start, following, checkpoint in zip(starts, nexts, checkpoints, strict=True)
    ]
    found = lags_of(starts, nexts, checkpoints)
    summary = summary_of(found)
    assert summary.lag == sum(each)
    assert (summary.most, summary.behind) == (max(each), sum(lag > 0 for lag in each))
    assert [unread.lag for unread in summary.largest] == sorted(each)[: -LARGEST_MAX - 1 : -1][
        : summary.behind
    ]
    for lag, partition, offset in found.values():
        assert lag == each[partition]
        assert offset == max(checkpoints[partition] + 1, starts[partition])
