"""The disk's baseline in an open loop."""

import pytest
from bench.disk import waits_s


def test_a_stall_counts_for_every_record_that_was_due_in_it() -> None:
    waits = waits_s(10.1, 10.0, 1_000.0, 100)
    assert len(waits) == 100
    assert waits[0] == pytest.approx(0.1)
    assert waits[-1] == pytest.approx(0.001)


def test_a_record_that_waits_for_nobody_takes_as_long_as_its_sync() -> None:
    assert waits_s(10.002, 10.0, 1_000.0, 1) == [pytest.approx(0.002)]
