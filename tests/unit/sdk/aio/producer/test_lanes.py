"""Lanes: no two puts at once use the numbers of one producer id, and there are few ids."""

import asyncio
import itertools

from opentalos.sdk.aio.producer.lanes import LANES_MAX, Lanes
from opentalos.sdk.core.producer.sequences import Sequences


async def test_a_caller_that_waits_for_each_put_needs_one_id() -> None:
    ids = itertools.count(1)
    lanes = Lanes(lambda: next(ids))
    for _ in range(10):
        async with lanes.lane() as sequences:
            assert sequences.stamp("t", 0).producer_id == 1


async def test_puts_at_once_have_ids_of_their_own_up_to_a_bound() -> None:
    ids = itertools.count(1)
    lanes = Lanes(lambda: next(ids))
    busy: list[Sequences] = []
    most = 0

    async def put() -> None:
        nonlocal most
        async with lanes.lane() as sequences:
            assert sequences not in busy
            busy.append(sequences)
            most = max(most, len(busy))
            await asyncio.sleep(1)
            busy.remove(sequences)

    await asyncio.gather(*[put() for _ in range(3 * LANES_MAX)])
    assert (most, next(ids)) == (LANES_MAX, LANES_MAX + 1)


async def test_a_cancelled_put_frees_its_lane() -> None:
    lanes = Lanes(lambda: 1)

    async def put() -> None:
        async with lanes.lane():
            await asyncio.sleep(60)

    tasks = [asyncio.create_task(put()) for _ in range(2 * LANES_MAX)]
    await asyncio.sleep(1)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    async with asyncio.timeout(1), lanes.lane():
        pass
