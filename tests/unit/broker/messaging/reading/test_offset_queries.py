"""Offsets by time: how much one search looks at."""

from typing import Any

import pytest
from tests.unit.broker.support import world
from tests.unit.catalog.support import ALICE

from opentalos.broker.messaging.reading.offset_queries import (
    SEARCHED_BYTES_MAX,
    SEARCHED_MESSAGE_BYTES,
    OffsetQueries,
)

BLOCKS, MESSAGES = 20, 10_000


async def test_a_search_by_time_is_bounded_by_messages_as_well_as_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched = 0

    async def earlier(*_: Any) -> None:
        nonlocal searched
        searched += 1

    monkeypatch.setattr(OffsetQueries, "_created_since", earlier)
    async with world() as w:
        topic = await w.topic(ALICE, "t")
        for _ in range(BLOCKS):
            await w.put(ALICE, topic, 0, MESSAGES)  # of a byte each
        found = await w.broker.reads.offset_queries.at_time(ALICE, topic.resource, 0, 0)
    assert found is not None
    assert found.offset == 0, "the first one that was stored then"
    assert 1 < searched <= SEARCHED_BYTES_MAX // (SEARCHED_MESSAGE_BYTES * MESSAGES) + 1 < BLOCKS
