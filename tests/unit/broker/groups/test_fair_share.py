"""The next step of a worker to its share: never what is held, always an end."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opentalos.broker.groups.fair_share import Step, next_step


@pytest.mark.parametrize(
    ("holdings", "partitions", "step"),
    [
        ({"a": []}, 3, Step((), [0, 1, 2])),
        ({"a": [0, 1, 2], "b": []}, 3, Step([2], ())),
        ({"b": [0, 1, 2], "a": []}, 3, Step((), [])),
        ({"a": [0, 1], "b": []}, 3, Step((), [])),
        ({"a": [0], "b": [1], "c": []}, 2, Step((), [])),
        ({"a": [0, 7]}, 1, Step([7], ())),
    ],
)
def test_a_step_is_what_clients_would_do(
    holdings: Mapping[str, Sequence[int]], partitions: int, step: Step
) -> None:
    assert next_step(holdings, "a", partitions) == step


@given(st.integers(1, 9), st.integers(0, 20))
def test_workers_that_take_steps_in_turn_come_to_equal_shares(
    workers: int, partitions: int
) -> None:
    held: dict[str, list[int]] = {f"w{number}": [] for number in range(workers)}
    held["w0"] = list(range(partitions))
    for _ in range(workers + 2):
        for name in sorted(held):
            step = next_step(held, name, partitions)
            held[name] = [item for item in held[name] if item not in step.release] + [*step.take]
        every = [ha for has in held.values() for ha in has]
        assert len(every) == len(set(every))
    counts = {len(has) for has in held.values()}
    assert max(counts) - min(counts) <= 1
    assert sum(len(has) for has in held.values()) == partitions
