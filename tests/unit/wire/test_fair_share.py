"""How many partitions each worker of a group should hold."""

import pytest

from opentalos.wire.fair_share import fair_share


@pytest.mark.parametrize(
    ("partitions", "workers", "shares"),
    [
        (1, 1, [1]),
        (4, 1, [4]),
        (4, 2, [2, 2]),
        (5, 2, [3, 2]),
        (7, 3, [3, 2, 2]),
        (2, 4, [1, 1, 0, 0]),
        (0, 2, [0, 0]),
        (100, 7, [15, 15, 14, 14, 14, 14, 14]),
    ],
)
def test_shares_differ_by_one_at_most(partitions: int, workers: int, shares: list[int]) -> None:
    names = [f"w{number}" for number in reversed(range(workers))]
    holdings: dict[str, list[int]] = {name: [] for name in names}
    assert [fair_share(holdings, name, partitions) for name in names] == shares


def test_the_worker_with_most_comes_first_and_ties_go_to_the_larger_id() -> None:
    holdings = {"a": [1], "c": [2], "b": [3], "d": []}
    for more in range(4):
        shares = {worker: fair_share(holdings, worker, more) for worker in holdings}
        assert [worker for worker in "cbad" if shares[worker]] == list("cbad")[:more]
