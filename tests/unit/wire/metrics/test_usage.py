"""The usage event's line: what it looks like, what it refuses."""

import json

import pytest
from tests.unit.matrix import matrix

from opentalos.model.errors import BadRequest, NewerFormat
from opentalos.wire.metrics.usage import EVENT_BYTES_MAX, UsageEvent

EVENT = UsageEvent("0a1b", "clicks", "acme", 3, 1764000000000, 7, 4096, 100, 107)
LINE = (
    b'{"v":1,"topic":"0a1b","name":"clicks","tenant":"acme","partition":3,'
    b'"minute_ms":1764000000000,"records":7,"bytes":4096,"first_offset":100,"next_offset":107}'
)


def changed(**fields: object) -> bytes:
    line = json.loads(LINE)
    line.update(fields)
    return json.dumps({name: value for name, value in line.items() if value != "gone"}).encode()


def test_an_event_is_the_documented_line() -> None:
    assert EVENT.encode() == LINE
    assert UsageEvent.decode(LINE) == EVENT
    assert EVENT.key == ("0a1b", 3, 1764000000000)


def test_unknown_fields_are_ignored_and_a_newer_version_is_named() -> None:
    assert UsageEvent.decode(changed(region="north")) == EVENT
    with pytest.raises(NewerFormat, match="version 2, known is 1"):
        UsageEvent.decode(changed(v=2, records="none of our business"))


@matrix(
    ("fields", "reason"),
    [
        ({"v": "gone"}, "v is missing"),
        ({"v": True}, "v is True"),
        ({"v": 0}, "v is 0"),
        ({"topic": ""}, "topic is ''"),
        ({"tenant": "gone"}, "tenant is missing"),
        ({"name": 3}, "name is 3"),
        ({"records": -1}, "records is -1"),
        ({"records": True}, "records is True"),
        ({"records": 7.0}, r"records is 7\.0"),
        ({"bytes": 1 << 63}, "bytes is 9223372036854775808, need 0 to"),
        ({"bytes": "gone"}, "bytes is missing"),
        ({"records": 6}, "records is 6, but the offsets 100 to 107 are 7"),
        ({"records": 0, "next_offset": 100}, "records is 0, need at least 1"),
        ({"first_offset": 107, "next_offset": 100}, "but the offsets 107 to 100 are -7"),
        ({"minute_ms": 1764000000001}, "need a multiple of 60000"),
        ({"partition": 1 << 31}, "partition is 2147483648"),
    ],
)
def test_a_wrong_field_is_named(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        UsageEvent.decode(changed(**fields))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 5000, "not valid JSON"),
        (b"[1]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b" " * (EVENT_BYTES_MAX + 1), "need at most 8192"),
    ],
)
def test_an_invalid_event_is_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(BadRequest, match=reason):
        UsageEvent.decode(raw)
