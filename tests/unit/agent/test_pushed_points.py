"""Pushed values as rows: dimensions, gauges, counters, limits."""

import pytest

from opentalos.agent import pushed_points
from opentalos.agent.pushed_points import PushedPoints, TooManySeries
from opentalos.wire.metrics.falcon import Point, PushError
from opentalos.wire.metrics.measurement import Measurement, decode_measurement, encode_measurement

TAGS = {"clusterName": "c", "topicName": "t", "partitionId": "2", "ip": "1.2.3.4", "type": "srv"}


def gauge(value: float, metric: str = "m", **changes: object) -> Point:
    return Point("e", metric, value, False, TAGS)._replace(**changes)  # type: ignore[arg-type]


def counter(value: float, metric: str = "n", **changes: object) -> Point:
    return gauge(value, metric, counter=True, **changes)


def taken(points: PushedPoints) -> list[Measurement]:
    return list(points.take(20_000, 10_000))


def test_tags_are_the_dimensions() -> None:
    points = PushedPoints()
    points.add([gauge(3), gauge(4, "o"), gauge(1, tags=TAGS | {"partitionId": "3"})])
    first, second = taken(points)
    assert first.key == ("client", "c", "1.2.3.4", "", "t", 2, 20_000)
    assert first.gauges == {"m": 3.0, "o": 4.0}
    assert second.partition == 3
    assert taken(points) == []
    assert points.points == 3


def test_without_tags_the_endpoint_is_the_machine() -> None:
    points = PushedPoints()
    points.add([gauge(3, tags={}, endpoint="db1")])
    (row,) = taken(points)
    assert (row.machine, row.topic, row.partition) == ("db1", "", -1)


def test_other_tags_belong_to_the_name() -> None:
    points = PushedPoints()
    points.add([gauge(3, tags={"mount": "/b"}), gauge(4, tags={"mount": "/a", "fs": "x"})])
    (row,) = taken(points)
    assert row.gauges == {"m/mount=/b": 3.0, "m/fs=x/mount=/a": 4.0}


def test_the_last_gauge_of_a_source_counts_and_the_largest_of_several() -> None:
    points = PushedPoints()
    points.add([gauge(9), gauge(3)])
    points.add([gauge(2, endpoint="another")])
    (row,) = taken(points)
    assert row.gauges == {"m": 3.0}
    points.add([gauge(3), gauge(8, endpoint="another")])
    (row,) = taken(points)
    assert row.gauges == {"m": 8.0}


def test_a_counter_becomes_its_increments() -> None:
    points = PushedPoints()
    points.add([counter(100)])
    (row,) = taken(points)
    assert row.sums == {}  # the base is unknown
    points.add([counter(107), counter(110)])
    points.add([counter(5, endpoint="another")])
    points.add([counter(6, endpoint="another")])
    (row,) = taken(points)
    assert row.sums == {"n": 11.0}
    points.add([counter(4)])  # restarted
    (row,) = taken(points)
    assert row.sums == {"n": 4.0}


def test_a_counter_without_pushes_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed_points, "COUNTER_STEPS_MAX", 2)
    points = PushedPoints()
    points.add([counter(100)])
    for _ in range(4):
        taken(points)
    points.add([counter(200)])
    (row,) = taken(points)
    assert row.sums == {}


def test_a_push_with_too_many_values_is_rejected_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pushed_points, "SERIES_MAX", 3)
    points = PushedPoints()
    points.add([gauge(1, "a"), gauge(1, "b")])
    with pytest.raises(TooManySeries, match="3 values"):
        points.add([gauge(1, "c"), gauge(1, "d")])
    points.add([gauge(2, "a"), gauge(1, "c")])
    (row,) = taken(points)
    assert row.gauges == {"a": 2.0, "b": 1.0, "c": 1.0}
    points.add([gauge(1, "c"), gauge(1, "d")])


def test_too_many_counters_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushed_points, "SERIES_MAX", 3)
    points = PushedPoints()
    for name in "abc":
        points.add([counter(1, name)])
        taken(points)
    with pytest.raises(TooManySeries, match="3 counters"):
        points.add([counter(1, "d")])


def test_a_row_stays_small_enough_for_an_event() -> None:
    points = PushedPoints()
    names = [f"{number:03d}" + "\u00e9" * 125 for number in range(pushed_points.ROW_MEASURES_MAX)]
    points.add([gauge(1.5, name) for name in names])
    with pytest.raises(TooManySeries, match="of one source"):
        points.add([gauge(1, "one more")])
    (row,) = taken(points)
    assert decode_measurement(encode_measurement(row)) == row


@pytest.mark.parametrize("partition", ["x", "-1", "1.5", "9" * 10, "\u0663"])
def test_an_invalid_partition_is_rejected(partition: str) -> None:
    with pytest.raises(PushError, match="partitionId of point 1"):
        PushedPoints().add([gauge(1), gauge(1, tags={"partitionId": partition})])


def test_an_overlong_name_with_tags_is_rejected() -> None:
    with pytest.raises(PushError, match="metric and tags of point 0"):
        PushedPoints().add([gauge(1, "m" * 100, tags={"k": "v" * 40})])
