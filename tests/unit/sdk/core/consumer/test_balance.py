"""Who gives up and takes what: ours and, beside it, the rule of the official Python SDK."""

import random
from collections.abc import Mapping, Sequence

import pytest
from tests.unit.matrix import matrix

from opentalos.sdk.core.consumer.balance import Move, balance


def first(of: Sequence[int], count: int) -> Sequence[int]:
    """A choice that tests can foretell."""
    return of[:count]


def targets(partitions: int, workers: int) -> list[int]:
    """Shares by rank, as the official SDKs compute them."""
    each, more = divmod(partitions, workers)
    return [each + 1] * more + [each] * (workers - more)


@pytest.mark.parametrize(
    ("holdings", "mine", "partitions", "move"),
    [
        ({"a": []}, [], 3, Move(take=(0, 1, 2))),
        ({"a": [0, 1, 2, 3], "b": []}, [0, 1, 2, 3], 4, Move(release=(2, 3))),
        ({"b": [0, 1, 2, 3], "a": []}, [], 4, Move(missing=2)),
        ({"a": [0, 1], "b": [2, 3]}, [0, 1], 4, Move()),
        ({"a": [0], "b": [2, 3]}, [0], 4, Move(take=(1,))),
        ({"a": [0], "b": [1], "c": []}, [0], 2, Move()),  # more workers than partitions
        ({"c": [0], "b": [1], "a": []}, [], 2, Move()),
        ({"a": [0, 1, 5], "b": [2]}, [0, 1, 5], 4, Move(release=(5,))),  # after a shrink
        ({"b": [0]}, [1], 4, Move(missing=1)),  # the server does not know us: no balance yet
        ({"a": [0, 1], "b": [2, 3]}, [0], 4, Move(take=(1,))),  # ours, though we do not know
        ({"a": [0, 1, 2], "b": [3]}, [0], 4, Move(take=(1,), stray=(2,))),
        ({"a": [0, 1, 2], "b": []}, [1, 2], 4, Move(stray=(0,))),
    ],
)
def test_one_workers_round(
    holdings: Mapping[str, list[int]], mine: list[int], partitions: int, move: Move
) -> None:
    assert balance("a", holdings, mine, (), partitions, first) == move


def test_what_is_on_its_way_out_is_not_taken_again() -> None:
    holdings = {"a": [0, 1, 2, 3], "b": []}
    assert balance("a", holdings, [0, 1], [2, 3], 4, first) == Move()


def official(me: str, holdings: Mapping[str, list[int]], partitions: int) -> Move:
    """TalosConsumer.make_balance of the official Python SDK; ties stay in the reply's order, which
    is by worker id, descending."""
    held = list(holdings[me])
    order = sorted(sorted(holdings, reverse=True), key=lambda worker: -len(holdings[worker]))
    place, parts = order.index(me), targets(partitions, len(holdings))
    beyond = [item for item in held if item >= partitions]
    if beyond:
        return Move(release=tuple(beyond))
    if len(held) > parts[place]:
        return Move(release=tuple(sorted(held)[: len(held) - parts[place]]))
    idle = [
        number
        for number in range(partitions)
        if not any(number in them for them in holdings.values())
    ]
    return Move(take=tuple(idle[: parts[place] - len(held)]))


@matrix("seed", range(40))
def test_our_rule_and_the_official_one_settle_without_stealing(seed: int) -> None:
    source = random.Random(seed)
    partitions, names = source.randint(1, 24), [f"w{n}" for n in range(source.randint(1, 6))]
    holdings: dict[str, list[int]] = {name: [] for name in names}
    for partition in range(partitions):
        if source.random() < 0.7:
            holdings[source.choice(names)].append(partition)
    ours = {name for name in names if source.random() < 0.5}
    for _ in range(30 * len(names)):
        me = source.choice(names)
        mine = list(holdings[me])
        if me in ours:
            move = balance(me, holdings, mine, (), partitions, source.sample)
        else:
            move = official(me, holdings, partitions)
        assert set(move.release) <= set(mine)
        taken = {item for held in holdings.values() for item in held}
        assert not set(move.take) & taken
        assert not (move.release and move.take)
        holdings[me] = sorted(set(mine) - set(move.release) | set(move.take))
    assert sorted(map(len, holdings.values()), reverse=True) == targets(partitions, len(names))
    assert sorted(item for held in holdings.values() for item in held) == list(range(partitions))
