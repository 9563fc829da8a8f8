"""The event of what is kept is one line, and no usage event."""

import pytest

from opentalos.model.errors import BadRequest
from opentalos.wire.metrics.kept import KeptEvent
from opentalos.wire.metrics.usage import UsageEvent

EVENT = KeptEvent("0a", "bücher", "CLshop", 3, 1_764_000_000_000, 4_096)
LINE = (
    '{"v":1,"kind":"kept","topic":"0a","name":"bücher","tenant":"CLshop","partition":3,'
    '"minute_ms":1764000000000,"start_offset":4096}'
)


def test_an_event_is_one_line_of_json() -> None:
    assert EVENT.encode() == LINE.encode()


def test_who_knows_usage_events_only_takes_it_for_a_wrong_one() -> None:
    with pytest.raises(BadRequest, match="records is missing"):
        UsageEvent.decode(EVENT.encode())
