"""GuessLimit: a burst, then a rate, per key and address, in a bounded table."""

import pytest

from opentalos.gateway.thrift_http.guess_limit import PAIRS_MAX, GuessLimit
from opentalos.model.errors import AttemptsExceeded


class Clock:
    """Seconds that a test sets."""

    now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def may_try(limit: GuessLimit, network: str = "a", key_id: str = "K") -> bool:
    try:
        limit.check(network, key_id)
    except AttemptsExceeded:
        return False
    return True


def guesses(limit: GuessLimit, count: int) -> int:
    """Wrong secrets that were checked."""
    checked = 0
    for _ in range(count):
        if may_try(limit):
            limit.failed("a", "K")
            checked += 1
    return checked


def test_after_a_burst_guesses_are_checked_at_the_rate(clock: Clock) -> None:
    limit = GuessLimit(50, 1.0, clock)
    assert guesses(limit, 15_800) == 50
    for _ in range(10):
        clock.now_s += 1.0
        assert guesses(limit, 15_800) == 1


def test_refusals_do_not_prolong_the_wait(clock: Clock) -> None:
    limit = GuessLimit(2, 0.5, clock)
    guesses(limit, 100_000)
    clock.now_s += 1.9
    assert not may_try(limit)
    clock.now_s += 0.2
    assert may_try(limit)


def test_other_addresses_and_keys_are_not_affected(clock: Clock) -> None:
    limit = GuessLimit(2, 1.0, clock)
    guesses(limit, 10)
    assert not may_try(limit)
    assert may_try(limit, network="b")
    assert may_try(limit, key_id="L")


def test_the_text_names_key_and_wait(clock: Clock) -> None:
    limit = GuessLimit(2, 1.0, clock)
    guesses(limit, 10)
    with pytest.raises(AttemptsExceeded, match=r"with key K from this address; retry in 1\.0 s"):
        limit.check("a", "K")


def test_the_table_is_bounded_and_empty_again_some_time_after_an_attack(clock: Clock) -> None:
    limit = GuessLimit(2, 1.0, clock)
    for number in range(PAIRS_MAX + 10):
        limit.failed(str(number), "K")
    assert len(limit) == PAIRS_MAX
    clock.now_s += 10.0
    for _ in range(PAIRS_MAX):
        limit.check("x", "K")
    assert not limit
