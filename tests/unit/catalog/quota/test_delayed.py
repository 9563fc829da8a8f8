"""Delayed calls of one key keep their order, and their bytes are bounded."""

import asyncio
from functools import partial

import pytest

from opentalos.catalog.quota.delayed import DelayedCalls
from opentalos.model.errors import ThrottleRejected


async def test_a_shorter_delay_overtakes_nothing_of_its_key() -> None:
    calls, begun = DelayedCalls(100), list[str]()
    ended = asyncio.Event()
    calls.add("a", 0.02, 10, partial(begun.append, "first"))
    calls.add("a", 0.0, 10, partial(begun.append, "second"))
    calls.add("b", 0.0, 10, partial(begun.append, "other"))
    calls.add("a", 0.01, 10, ended.set)
    assert "a" in calls
    assert "c" not in calls
    assert calls.bytes == 40
    await ended.wait()
    assert [each for each in begun if each != "other"] == ["first", "second"]
    assert "other" in begun
    assert calls.bytes == 0
    assert "a" not in calls


async def test_too_many_bytes_are_refused() -> None:
    calls = DelayedCalls(100)
    begun = asyncio.Event()
    calls.add("a", 0.0, 60, begun.set)
    with pytest.raises(ThrottleRejected, match="limit 100, measured 110"):
        calls.add("b", 0.0, 50, begun.set)
    await begun.wait()
    calls.add("b", 0.0, 50, begun.set)
