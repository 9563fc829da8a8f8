"""Turns of the loop: one for each caller, in the order of the calls."""

import asyncio
import contextlib

from opentalos.log.scheduling.turns import Turns


async def _ended_in(turns: Turns, callers: int, cancelled: int | None = None) -> list[list[int]]:
    """Which callers returned in each turn of the loop, as long as any did."""
    now: list[int] = []

    async def call(number: int) -> None:
        await turns.next()
        now.append(number)

    tasks = [asyncio.ensure_future(call(number)) for number in range(callers)]
    found, left = [], callers - (cancelled is not None)
    while left:
        await asyncio.sleep(0)
        if cancelled is not None:
            tasks[cancelled].cancel()
        if now:
            found.append(list(now))
            left -= len(now)
            now.clear()
    for task in tasks:
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return found


async def test_callers_that_come_together_get_a_turn_each_in_order() -> None:
    assert await _ended_in(Turns(), 5) == [[0], [1], [2], [3], [4]]


async def test_a_single_caller_does_not_wait() -> None:
    turns = Turns()
    for _ in range(3):
        call = turns.next()
        try:
            call.send(None)
        except StopIteration:
            pass
        else:
            raise AssertionError("it waited")
        await asyncio.sleep(0)


async def test_a_caller_that_was_cancelled_keeps_no_turn() -> None:
    turns = Turns()
    assert await _ended_in(turns, 4, cancelled=2) == [[0], [1], [3]]
    assert await _ended_in(turns, 2) == [[0], [1]]
