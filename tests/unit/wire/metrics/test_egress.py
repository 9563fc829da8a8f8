"""The egress event is one line, and no usage event."""

import pytest

from opentalos.model.errors import BadRequest
from opentalos.wire.metrics.egress import EgressEvent
from opentalos.wire.metrics.usage import UsageEvent

EVENT = EgressEvent("0a", "bücher", "CLshop", "CLreader", 1_764_000_000_000, "s1/9f", 7, 30, 4_096)
LINE = (
    '{"v":1,"kind":"egress","topic":"0a","name":"bücher","tenant":"CLshop","reader":"CLreader",'
    '"minute_ms":1764000000000,"source":"s1/9f","number":7,"messages":30,"bytes":4096}'
)


def test_an_event_is_one_line_of_json() -> None:
    assert EVENT.encode() == LINE.encode()


def test_who_knows_usage_events_only_takes_it_for_a_wrong_one() -> None:
    with pytest.raises(BadRequest, match="partition is missing"):
        UsageEvent.decode(EVENT.encode())
