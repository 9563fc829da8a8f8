"""The counter of what one step of the loop does."""

import asyncio
import sys
import threading

from tests.loop_steps import LoopSteps


def nothing() -> None:
    """Called to be counted."""


def work(calls: int) -> None:
    for _ in range(calls):
        nothing()


async def in_steps(calls: int, pieces: int) -> None:
    for _ in range(pieces):
        work(calls)
        await asyncio.sleep(0)


async def test_calls_are_counted_by_step_not_by_task() -> None:
    with LoopSteps() as steps:
        await asyncio.get_running_loop().create_task(in_steps(100, 50))
    assert 100 < steps.largest.calls < 120
    assert steps.largest.callback == "task in_steps"
    assert steps.count > 50


async def test_the_same_work_has_the_same_count() -> None:
    counts = set()
    for _ in range(3):
        with LoopSteps() as steps:
            await asyncio.get_running_loop().create_task(in_steps(500, 2))
        counts.add(steps.largest.calls)
    assert len(counts) == 1


async def test_calls_of_c_functions_and_of_plain_callbacks_count() -> None:
    with LoopSteps() as steps:
        asyncio.get_running_loop().call_soon(lambda: [abs(number) for number in range(300)])
        await asyncio.sleep(0)
    assert 300 < steps.largest.calls < 310
    assert "lambda" in steps.largest.callback


async def test_a_label_names_what_runs_inside_it() -> None:
    with LoopSteps() as steps:
        await in_steps(1_000, 2)  # without a label
        async with steps.labelled("small"):
            await in_steps(10, 3)
        async with steps.labelled("large"):
            await in_steps(200, 3)
    assert 10 < steps.by_label["small"].calls < 50
    assert 200 < steps.by_label["large"].calls < 250
    assert steps.largest.label == ""
    large = steps.by_label["large"]
    assert large.busiest[0] == (200, "test_loop_steps.nothing")
    assert str(large).startswith(f"large: {large.calls} calls in task ")
    lines = steps.table().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["a step", "large", "small"]


async def test_work_on_other_threads_is_not_counted() -> None:
    with LoopSteps() as steps:
        thread = threading.Thread(target=work, args=(50_000,))
        thread.start()
        thread.join()
        await asyncio.sleep(0)
        thread = threading.Thread(target=lambda: asyncio.run(in_steps(5_000, 2)))
        thread.start()
        thread.join()
        await asyncio.sleep(0)
    assert 0 < steps.largest.calls < 1_000


async def test_afterwards_nothing_is_counted() -> None:
    run = asyncio.Handle._run
    with LoopSteps() as steps:
        assert asyncio.Handle._run is not run
        await asyncio.sleep(0)
    counted = steps.count
    await in_steps(10, 3)
    assert asyncio.Handle._run is run
    assert sys.getprofile() is None
    assert steps.count == counted


def test_a_loop_that_runs_inside_is_counted() -> None:
    with LoopSteps() as steps:
        asyncio.run(in_steps(100, 3))
    assert 100 < steps.largest.calls
    assert "in_steps" in steps.largest.callback
