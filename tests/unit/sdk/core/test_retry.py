"""What follows a failed attempt: a pause, or the end with an error that is true."""

import pytest

from opentalos.model.errors import BadRequest, OutcomeUnknown, StoreUnavailable, Unavailable
from opentalos.sdk.core.retry import RetryPolicy


def policy(
    *,
    repeatable: bool = False,
    reads: bool = False,
    endpoints: int = 1,
    random: float = 0.5,
    deadline_s: float = 60.0,
) -> RetryPolicy:
    return RetryPolicy(
        pause_s=(0.1, 5.0), deadline_s=deadline_s, repeatable=repeatable, reads=reads,
        endpoints=endpoints, random=lambda: random,
    )  # fmt: skip


def test_pauses_double_up_to_their_bound() -> None:
    attempts = policy()
    pauses = [attempts.pause_after(Unavailable("x"), 0.0) for _ in range(9)]
    assert pauses[:4] == [0.05, 0.1, 0.2, 0.4]
    assert pauses[-1] == 2.5


def test_jitter_is_full() -> None:
    assert policy(random=0.0).pause_after(Unavailable("x"), 0.0) == 0.0
    assert policy(random=0.999).pause_after(Unavailable("x"), 0.0) == pytest.approx(0.0999)


def test_every_endpoint_is_tried_once_before_pauses_grow() -> None:
    attempts = policy(endpoints=3)
    pauses = [attempts.pause_after(Unavailable("x"), 0.0) for _ in range(4)]
    assert pauses == [0.05, 0.05, 0.05, 0.1]


def test_a_wrong_request_is_not_repeated() -> None:
    with pytest.raises(BadRequest, match="wrong"):
        policy(repeatable=True, reads=True).pause_after(BadRequest("wrong"), 0.0)


def test_an_unknown_outcome_is_not_repeated_blindly() -> None:
    with pytest.raises(OutcomeUnknown):
        policy().pause_after(OutcomeUnknown("cut"), 0.0)


def test_an_unknown_outcome_is_repeated_where_that_does_no_harm() -> None:
    assert policy(repeatable=True).pause_after(OutcomeUnknown("cut"), 0.0) > 0
    assert policy(reads=True).pause_after(OutcomeUnknown("cut"), 0.0) > 0


def test_the_deadline_ends_with_the_last_error() -> None:
    attempts = policy(deadline_s=1.0)
    attempts.pause_after(Unavailable("first"), 0.0)
    with pytest.raises(StoreUnavailable, match="last") as failure:
        attempts.pause_after(StoreUnavailable("last"), 0.9)
    assert failure.value.__notes__ == ["gave up after 2 attempts"]


def test_a_write_that_was_unknown_once_never_ends_as_not_done() -> None:
    for last in (BadRequest("gone"), Unavailable("down")):
        attempts = policy(repeatable=True, deadline_s=1.0)
        attempts.pause_after(OutcomeUnknown("cut"), 0.0)
        with pytest.raises(OutcomeUnknown, match=f"cut; then {type(last).__name__}") as failure:
            attempts.pause_after(last, 0.99)
        assert failure.value.__cause__ is last


def test_a_read_ends_with_what_its_last_attempt_said() -> None:
    attempts = policy(reads=True)
    attempts.pause_after(OutcomeUnknown("cut"), 0.0)
    with pytest.raises(BadRequest, match="gone"):
        attempts.pause_after(BadRequest("gone"), 0.0)


def test_a_thousand_failures_stay_within_bounds() -> None:
    attempts = policy(deadline_s=float("inf"), random=1.0)
    assert max(attempts.pause_after(Unavailable("x"), 0.0) for _ in range(1_000)) == 5.0
