"""SimulationLoop: virtual time, deadlocks, pauses and crashes."""

import asyncio
import gc
import random
import time
from collections.abc import AsyncIterator

import pytest

from opentalos.testing.simulation.loop import (
    START_S,
    SimulatedProcess,
    SimulationDeadlock,
    SimulationLoop,
    SimulationRunaway,
    current_process,
)


def test_an_hour_passes_at_once_and_is_seen_by_the_code() -> None:
    loop = SimulationLoop()
    began = time.monotonic()

    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    assert loop.run(main()) == START_S + 3600
    assert time.monotonic() - began < 3600  # the claim is about time


def test_timers_fire_in_the_order_of_their_times() -> None:
    seen: list[float] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for delay in (0.3, 0.1, 0.2, 0.1):
            loop.call_later(delay, seen.append, delay)
        await asyncio.sleep(1)

    SimulationLoop().run(main())
    assert seen == [0.1, 0.1, 0.2, 0.3]


def test_a_wait_that_nothing_ends_is_a_deadlock_that_names_the_task() -> None:
    async def waits_forever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(waits_forever(), name="stuck-one")

    with pytest.raises(SimulationDeadlock, match="stuck-one"):
        SimulationLoop().run(main())


def test_code_that_spins_is_stopped() -> None:
    def again() -> None:
        asyncio.get_running_loop().call_soon(again)

    async def main() -> None:
        again()
        await asyncio.sleep(1)

    with pytest.raises(SimulationRunaway, match="callbacks"):
        SimulationLoop().run(main())


async def _tick(seen: list[float]) -> None:
    while True:
        await asyncio.sleep(1)
        seen.append(asyncio.get_running_loop().time() - START_S)


def test_a_paused_process_stands_still_and_catches_up_when_resumed() -> None:
    seen: list[float] = []
    loop = SimulationLoop()

    async def main() -> None:
        process = loop.process("server")
        process.create_task(_tick(seen))
        await asyncio.sleep(2.5)
        process.pause()
        await asyncio.sleep(10)
        assert seen == [1, 2]
        process.resume()
        await asyncio.sleep(1.1)

    loop.run(main())
    assert seen == [1, 2, 12.5, 13.5]


def test_a_crashed_process_never_runs_again_nor_its_finally_blocks() -> None:
    seen: list[str] = []
    loop = SimulationLoop()

    async def serve() -> None:
        try:
            await asyncio.sleep(5)
            seen.append("slept")
        finally:
            seen.append("finally")

    async def main() -> None:
        process = loop.process("server")
        process.create_task(serve())
        await asyncio.sleep(1)
        process.crash()
        gc.collect()
        await asyncio.sleep(100)
        gc.collect()
        assert seen == []

    loop.run(main())


def test_what_a_process_starts_belongs_to_it() -> None:
    names: list[str] = []
    loop = SimulationLoop()

    async def child() -> None:
        process = current_process()
        assert process is not None
        names.append(process.name)

    async def parent() -> None:
        await asyncio.create_task(child())
        asyncio.get_running_loop().call_later(1, lambda: names.append(str(current_process())))

    async def main() -> None:
        process = loop.process("server")
        process.create_task(parent())
        await asyncio.sleep(0.5)
        process.crash()
        await asyncio.sleep(2)
        assert current_process() is None

    loop.run(main())
    assert names == ["server"]


def test_a_future_crosses_from_one_process_to_another() -> None:
    loop = SimulationLoop()
    owner: list[SimulatedProcess | None] = []

    async def main() -> None:
        server, client = loop.process("server"), loop.process("client")
        answer: asyncio.Future[int] = loop.create_future()

        async def ask() -> None:
            await answer
            owner.append(current_process())

        client.create_task(ask())
        await asyncio.sleep(1)
        server.call_soon(answer.set_result, 7)
        await asyncio.sleep(1)
        assert owner == [client]

    loop.run(main())


def test_a_crashed_async_generator_and_a_stubborn_coroutine_end_in_silence() -> None:
    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            await asyncio.sleep(1)

    async def stubborn() -> None:
        async for _ in numbers():
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(1)

    loop = SimulationLoop()

    async def main() -> None:
        process = loop.process("server")
        process.create_task(stubborn())
        await asyncio.sleep(1)
        process.crash()

    loop.run(main())
    gc.collect()


def _order_of(shuffle: random.Random | None) -> list[int]:
    order: list[int] = []

    async def step(number: int) -> None:
        order.append(number)

    async def main() -> None:
        tasks = [asyncio.create_task(step(number)) for number in range(8)]
        await asyncio.gather(*tasks)

    SimulationLoop(shuffle).run(main())
    return order


def test_shuffling_permutes_task_steps_and_repeats_with_its_seed() -> None:
    assert _order_of(None) == list(range(8))
    orders = [_order_of(random.Random(seed)) for seed in range(4)]
    assert orders == [_order_of(random.Random(seed)) for seed in range(4)]
    assert len({tuple(order) for order in orders}) > 1


def test_an_uncaught_exception_is_recorded() -> None:
    loop = SimulationLoop()

    async def main() -> None:
        process = loop.process("server")

        def fail() -> None:
            raise ValueError("oops")

        process.call_soon(fail)
        await asyncio.sleep(1)

    loop.run(main())
    assert len(loop.errors) == 1
    assert "server: " in loop.errors[0]
    assert "oops" in loop.errors[0]
