"""Readers that wait for the same message continue a few in each pass of the loop."""

import asyncio
from collections.abc import Sequence
from typing import Any

from tests.unit.log.bed import open_bed, put, until

from opentalos.log.scheduling.read_waiters import AT_ONCE, Arrivals, WakeUps

MANY = 10 * AT_ONCE
Waits = Sequence["asyncio.Future[Any]"]


async def begun(arrivals: Arrivals, count: int, hold_s: float = 60.0) -> Waits:
    """So many readers that wait."""
    loop = asyncio.get_running_loop()
    waits = [loop.create_task(arrivals.wait(loop.time() + hold_s)) for _ in range(count)]
    await until(lambda: len(arrivals) == count or hold_s < 0)
    return waits


async def most_in_a_pass(waits: Waits) -> int:
    """The most tasks that ended in one pass of the loop, until all have."""
    most, done = 0, sum(wait.done() for wait in waits)
    while done < len(waits):
        await asyncio.sleep(0)
        now = sum(wait.done() for wait in waits)
        most, done = max(most, now - done), now
    return most


async def test_one_message_lets_few_of_a_thousand_readers_continue_in_a_pass() -> None:
    bed = await open_bed()
    log = bed.log()
    await put(log, b"a")
    reads = [
        asyncio.ensure_future(log.read(1, messages_max=1, bytes_max=1, hold_s=60))
        for _ in range(MANY)
    ]
    await until(lambda: len(log.arrivals) == MANY)
    await put(log, b"b")
    assert sum(read.done() for read in reads) <= 4 * AT_ONCE
    assert await most_in_a_pass(reads) <= AT_ONCE
    assert {read.result().blocks[0].payload for read in reads} == {b"b"}
    await bed.store.close()


async def test_readers_whose_deadline_is_the_same_continue_a_few_at_a_time() -> None:
    arrivals = Arrivals(WakeUps())
    waits = await begun(arrivals, MANY, hold_s=-1.0)
    assert await most_in_a_pass(waits) <= AT_ONCE
    assert not any(wait.result() for wait in waits)
    assert not arrivals


async def test_readers_of_another_log_do_not_wait_for_a_thousand() -> None:
    wake_ups = WakeUps()
    crowded, other = Arrivals(wake_ups), Arrivals(wake_ups)
    many, few = await begun(crowded, MANY), await begun(other, 2)
    crowded.wake()
    other.wake()
    await until(lambda: all(wait.done() for wait in few), 0)
    assert sum(wait.done() for wait in many) <= 3 * AT_ONCE
    assert await most_in_a_pass(many) <= AT_ONCE


async def test_a_few_readers_continue_at_once_in_every_pass() -> None:
    arrivals = Arrivals(WakeUps())
    for _ in range(3):
        waits = await begun(arrivals, AT_ONCE)
        arrivals.wake()
        for _ in range(2):  # the future, then the task
            await asyncio.sleep(0)
        assert all(wait.done() for wait in waits)


async def test_readers_that_left_meanwhile_take_no_place() -> None:
    arrivals = Arrivals(WakeUps())
    gone = await begun(arrivals, MANY)
    arrivals.wake()
    for wait in gone:
        wait.cancel()
    waits = await begun(arrivals, AT_ONCE)
    arrivals.wake()
    passes = 0
    while not all(wait.done() for wait in waits):
        await asyncio.sleep(0)
        passes += 1
    assert passes <= 4
    await asyncio.gather(*gone, return_exceptions=True)
