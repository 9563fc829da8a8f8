"""Measurement events: what comes back, and everything that is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.matrix import matrix

from opentalos.model.errors import NewerFormat, TalosError
from opentalos.wire.metrics.measurement import (
    EVENT_BYTES_MAX,
    MEASURES_MAX,
    Measurement,
    MeasurementError,
    decode_measurement,
    encode_measurement,
)
from opentalos.wire.metrics.measures import MEASURES
from opentalos.wire.metrics.sketch import BUCKET_MAX, BUCKET_MIN

names = st.text(min_size=1, max_size=20)
finite = st.floats(allow_nan=False, allow_infinity=False)
rows = st.builds(
    Measurement,
    at_ms=st.integers(0, 1 << 50),
    step_ms=st.integers(1, 3_600_000),
    service=names,
    cluster=st.text(max_size=20),
    machine=st.text(max_size=20),
    tenant=st.text(max_size=20),
    topic=st.text(max_size=20),
    partition=st.integers(-1, 1_000),
    sums=st.dictionaries(names, finite.map(abs), max_size=5),
    gauges=st.dictionaries(names, finite, max_size=5),
    sketches=st.dictionaries(
        names,
        st.dictionaries(st.integers(BUCKET_MIN, BUCKET_MAX), st.integers(1, 1 << 40), max_size=5),
        max_size=3,
    ),
)


def event(**changes: Any) -> bytes:
    row = Measurement(at_ms=10_000, step_ms=10_000, service="server", sums={"puts": 1.0})
    return json.dumps(json.loads(encode_measurement(row)) | changes).encode()


@given(rows)
def test_a_row_round_trips(row: Measurement) -> None:
    assert decode_measurement(encode_measurement(row)) == row


def test_equal_rows_have_equal_bytes() -> None:
    first = Measurement(at_ms=1, step_ms=1, service="s", gauges={"a": 1, "b": 2})
    other = Measurement(at_ms=1, step_ms=1, service="s", gauges={"b": 2.0, "a": 1.0})
    assert encode_measurement(first) == encode_measurement(other)


def test_the_documented_bytes() -> None:
    row = Measurement(
        at_ms=1_764_000_010_000,
        step_ms=10_000,
        service="server",
        machine="m1",
        sums={"put_requests": 3},
        gauges={"cpu_cores": 0.5},
        sketches={"put_ms": {38: 1, -2: 4}},
    )
    assert encode_measurement(row) == (
        b'{"v":1,"at_ms":1764000010000,"step_ms":10000,"service":"server","cluster":"",'
        b'"machine":"m1","tenant":"","topic":"","partition":-1,"sums":{"put_requests":3.0},'
        b'"gauges":{"cpu_cores":0.5},"sketches":{"put_ms":{"-2":4,"38":1}}}'
    )


def test_fields_that_are_not_known_are_skipped() -> None:
    assert decode_measurement(event(colour="red")) == decode_measurement(event())


def test_a_newer_version_is_recognized() -> None:
    with pytest.raises(NewerFormat, match="format 2"):
        decode_measurement(event(v=2, sums="something new"))


@matrix(
    ("changes", "field"),
    [
        ({"v": "1"}, "v"),
        ({"v": True}, "v"),
        ({"v": 0}, "v"),
        ({"at_ms": -1}, "at_ms"),
        ({"at_ms": 1.5}, "at_ms"),
        ({"at_ms": 1 << 63}, "at_ms"),
        ({"step_ms": 0}, "step_ms"),
        ({"service": ""}, "service"),
        ({"service": 7}, "service"),
        ({"topic": "t" * 257}, "topic"),
        ({"partition": -2}, "partition"),
        ({"sums": []}, "sums"),
        ({"sums": {"puts": -1}}, "sums.puts"),
        ({"sums": {"puts": "1"}}, "sums.puts"),
        ({"sums": {"puts": True}}, "sums.puts"),
        ({"sums": {"puts": 10**400}}, "sums.puts"),
        ({"sums": {"": 1}}, "sums"),
        ({"gauges": {"load": float("nan")}}, "gauges.load"),
        ({"gauges": {"load": float("inf")}}, "gauges.load"),
        ({"gauges": {str(number): 1 for number in range(MEASURES_MAX + 1)}}, "gauges"),
        ({"sketches": {"put_ms": [1]}}, "sketches.put_ms"),
        ({"sketches": {"put_ms": {"x": 1}}}, "sketches.put_ms"),
        ({"sketches": {"put_ms": {"01": 1}}}, "sketches.put_ms"),
        ({"sketches": {"put_ms": {"-": 1}}}, "sketches.put_ms"),
        ({"sketches": {"put_ms": {"1401": 1}}}, "sketches.put_ms"),
        ({"sketches": {"put_ms": {"1": 0}}}, "sketches.put_ms"),
        ({"sketches": {"put_ms": {"1": -4}}}, "sketches.put_ms"),
        ({"sketches": {"put_ms": {"1": 1 << 63}}}, "sketches.put_ms"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(MeasurementError, match=f"^{field} of a measurement must be"):
        decode_measurement(event(**changes))


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"[]", b"1", b'{"v":1', b"[" * 100_000, b"x" * (EVENT_BYTES_MAX + 1)]
)
def test_an_invalid_event_is_refused(data: bytes) -> None:
    with pytest.raises(MeasurementError):
        decode_measurement(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        row = decode_measurement(data)
    except TalosError:
        return
    assert decode_measurement(encode_measurement(row)) == row


def test_a_value_that_is_not_finite_is_not_written() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode_measurement(Measurement(at_ms=1, step_ms=1, service="s", gauges={"a": float("inf")}))


def test_every_measure_has_one_meaning_in_its_rows() -> None:
    seen = [(measure.scope, measure.name) for measure in MEASURES]
    assert len(seen) == len(set(seen))
    kinds = {(measure.name, measure.kind) for measure in MEASURES}
    assert len(kinds) == len({name for name, _ in kinds})  # one kind in every scope
