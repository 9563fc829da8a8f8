"""Calls of the store return in time, or are left behind."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest
from tests.waiting import limit_s

from opentalos.adapters import bounded_call
from opentalos.adapters.bounded_call import CALLS_MAX, answered
from opentalos.model.errors import StoreUnavailable


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Calls that wait for it hang until it is set."""
    monkeypatch.setattr(bounded_call, "_calls", threading.BoundedSemaphore(CALLS_MAX))
    answer = threading.Event()
    yield answer
    answer.set()


def refused() -> None:
    raise ValueError("refused")


def test_a_call_returns_what_it_found_and_raises_what_it_raised() -> None:
    assert answered(lambda: 7, limit_s()) == 7
    with pytest.raises(ValueError, match="refused"):
        answered(refused, limit_s())


def test_a_call_that_hangs_is_left_behind(store: threading.Event) -> None:
    with pytest.raises(TimeoutError, match=r"no answer within 0\.01 s"):
        answered(store.wait, 0.01)


def test_an_error_of_time_that_the_call_raised_is_passed_on() -> None:
    def late() -> None:
        raise TimeoutError("the DataNode is slow")

    with pytest.raises(TimeoutError, match="the DataNode is slow"):
        answered(late, limit_s())


def test_calls_that_were_left_are_bounded_and_count_until_they_return(
    store: threading.Event,
) -> None:
    for _ in range(CALLS_MAX):
        with pytest.raises(TimeoutError):
            answered(store.wait, 0.001)
    with pytest.raises(StoreUnavailable, match="have not returned"):
        answered(lambda: 7, limit_s())
    store.set()
    ended = threading.Event()
    while not ended.is_set():
        try:
            answered(ended.set, limit_s())
        except StoreUnavailable:  # the last of them is about to return
            continue


def test_results_of_calls_at_once_are_not_mixed() -> None:
    found: dict[int, int] = {}

    def ask(number: int) -> None:
        found[number] = answered(partial(pow, number, 2), limit_s())

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: number**2 for number in range(8)}
