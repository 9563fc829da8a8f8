"""Until when a holder may believe in its lease, and which write comes too late."""

import pytest

from opentalos.model.errors import LeaseNotHeld
from opentalos.pipelines.lease import HeldLease, check_epoch

HELD = HeldLease("run", 3, ttl_s=30.0, asked_s=100.0)


@pytest.mark.parametrize(
    ("now_s", "due", "stop"),
    [
        (100, False, False),
        (109.9, False, False),
        (110, True, False),
        (126.9, True, False),
        (127, True, True),
        (500, True, True),
    ],
)
def test_a_holder_renews_at_a_third_and_stops_before_the_end(
    now_s: float, due: bool, stop: bool
) -> None:
    assert (HELD.is_due(now_s), HELD.must_stop(now_s)) == (due, stop)


def test_a_renewal_counts_from_when_it_was_asked_for() -> None:
    renewed = HELD.renewed(111)
    assert not renewed.must_stop(137.9)
    assert renewed.must_stop(138)
    assert renewed.renewed(105) == renewed, "a reply that came late does not shorten it"


def test_an_older_epoch_is_refused_once_a_newer_one_has_written() -> None:
    with pytest.raises(
        LeaseNotHeld, match="could not write table t under epoch 3: a run with epoch 4"
    ):
        check_epoch("table t", 3, 4)
    for epoch, newest in ((3, 3), (4, 3), (1, 0), (0, 9)):
        check_epoch("table t", epoch, newest)
