"""Pushes: what official clients send is taken, everything else is refused with a reason."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.matrix import matrix

from opentalos.model.errors import TalosError
from opentalos.wire.metrics.falcon import POINTS_MAX, TAGS_MAX, Point, PushError, decode_push

# As talos_python3 3.1.8 makes it, with the default configuration.
OFFICIAL: dict[str, Any] = {
    "endpoint": "talos.producer.orders",
    "timestamp": 1_764_000_000,
    "step": 60,
    "counterType": "GAUGE",
    "tags": "clusterName=127.0.0.1:9420,topicName=orders,partitionId=3,ip=10.0.0.7,type=srv",
    "metric": "putMessage.60sRate",
    "value": 12,
}


def push(**changes: Any) -> bytes:
    return json.dumps([OFFICIAL | changes]).encode()


def test_what_the_official_client_sends_is_read() -> None:
    tags = {
        "clusterName": "127.0.0.1:9420",
        "topicName": "orders",
        "partitionId": "3",
        "ip": "10.0.0.7",
        "type": "srv",
    }
    assert decode_push(push()) == [
        Point("talos.producer.orders", "putMessage.60sRate", 12.0, False, tags)
    ]


def test_an_empty_push_is_accepted() -> None:
    assert decode_push(b"[]") == []


@pytest.mark.parametrize(
    ("tags", "wanted"),
    [
        ("", {}),
        ("a=1,", {"a": "1"}),
        ("a=", {"a": ""}),
        ("mount=/data=1", {"mount": "/data=1"}),
        (" a = b ", {" a ": " b "}),
    ],
)
def test_tags_are_read_as_they_are(tags: str, wanted: dict[str, str]) -> None:
    (point,) = decode_push(push(tags=tags))
    assert point.tags == wanted


def test_tags_may_be_left_out() -> None:
    point = {name: value for name, value in OFFICIAL.items() if name != "tags"}
    (found,) = decode_push(json.dumps([point]).encode())
    assert found.tags == {}


@matrix(
    ("changes", "field"),
    [
        ({"value": -1}, "value"),
        ({"value": -0.001}, "value"),
        ({"value": float("nan")}, "value"),
        ({"value": float("inf")}, "value"),
        ({"value": 1e19}, "value"),
        ({"value": 10**4_000}, "value"),
        ({"value": "12"}, "value"),
        ({"value": None}, "value"),
        ({"value": True}, "value"),
        ({"value": [1]}, "value"),
        ({"metric": ""}, "metric"),
        ({"metric": "m" * 129}, "metric"),
        ({"metric": 7}, "metric"),
        ({"endpoint": None}, "endpoint"),
        ({"counterType": "DERIVE"}, "counterType"),
        ({"counterType": ["GAUGE"]}, "counterType"),
        ({"timestamp": -5}, "timestamp"),
        ({"timestamp": "now"}, "timestamp"),
        ({"step": 0}, "step"),
        ({"step": 60.5}, "step"),
        ({"step": True}, "step"),
        ({"tags": "novalue"}, "tags"),
        ({"tags": "=x"}, "tags"),
        ({"tags": {"a": "b"}}, "tags"),
        ({"tags": "a=" + "x" * 129}, "tags"),
        ({"tags": ",".join(f"k{number}=v" for number in range(TAGS_MAX + 1))}, "tags"),
    ],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(PushError, match=f"^{field} of point 0 must be"):
        decode_push(push(**changes))


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff\xfe", b"{}", b"null", b"[1]", b"[{}]", b"[" * 50_000, b'[{"a":', b"[NaN]"],
)
def test_an_invalid_push_is_refused(body: bytes) -> None:
    with pytest.raises(PushError):
        decode_push(body)


def test_a_number_of_too_many_digits_is_refused() -> None:
    with pytest.raises(PushError, match="not valid JSON"):
        decode_push(push().replace(b"12}", b"1" * 5_000 + b"}"))


def test_a_push_is_bounded() -> None:
    with pytest.raises(PushError, match="at most 5000"):
        decode_push(json.dumps([OFFICIAL] * (POINTS_MAX + 1)).encode())


@given(st.binary(max_size=200) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(list(OFFICIAL)), inner),
    max_leaves=20,
).map(lambda item: json.dumps([item]).encode()))  # fmt: skip
def test_any_body_is_read_or_refused(body: bytes) -> None:
    try:
        decode_push(body)
    except TalosError:
        pass
