"""When mutations wait for their topics, when they are rejected, and when a stream stops."""

from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.broker.tables.stream.backpressure import Backpressure, Pressure
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import WhenFull

LIMITS = SdsLimits(throttle_max_s=3.0, refused_max_s=30.0)


def lane(refused_since_s: float | None) -> Any:
    return SimpleNamespace(refused_since_s=refused_since_s)


def test_mutations_wait_and_are_rejected_later() -> None:
    pressure = Backpressure(LIMITS)
    assert pressure.update(False, 10.0) is Pressure.NONE
    assert pressure.update(True, 11.0) is Pressure.BEGINS
    assert pressure.update(True, 13.9) is Pressure.DELAYING
    assert pressure.update(True, 14.0) is Pressure.EXPIRED
    assert pressure.delaying
    assert pressure.update(False, 14.1) is Pressure.NONE
    assert pressure.update(True, 20.0) is Pressure.BEGINS


@pytest.mark.parametrize(
    ("when_full", "since_s", "full", "stops"),
    [
        (WhenFull.GAP, 70.0, False, True),
        (WhenFull.GAP, 71.0, False, False),
        (WhenFull.GAP, 99.0, True, True),
        (WhenFull.GAP, None, True, False),
        (WhenFull.REFUSE, 0.0, True, False),
    ],
)
def test_a_stream_stops_only_if_its_table_prefers_a_gap(
    when_full: WhenFull, since_s: float | None, full: bool, stops: bool
) -> None:
    found = Backpressure(LIMITS).must_stop(when_full, lane(since_s), full, now_s=100.0)
    assert found is stops
