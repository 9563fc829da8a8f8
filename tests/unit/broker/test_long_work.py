"""LongWork: turns in rotation, bounded waiting, and calls on threads that outlive their callers."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from opentalos.broker.long_work import (
    PASSES_BETWEEN,
    SHORT_ITEMS,
    TURNS_MAX,
    LongWork,
    work_for,
)
from opentalos.model.errors import ExcessivePending


class Threads:
    """Runs calls when a test says so."""

    def __init__(self) -> None:
        self.yields = 0
        self.waiting: list[tuple[Callable[..., Any], tuple[Any, ...], asyncio.Future[Any]]] = []

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        done = asyncio.get_running_loop().create_future()
        self.waiting.append((work, args, done))
        return await done

    def yield_lock(self) -> None:
        self.yields += 1

    def finish(self) -> None:
        work, args, done = self.waiting.pop(0)
        done.set_result(work(*args))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_callers_are_served_in_rotation_however_many_calls_one_has() -> None:
    work = LongWork(None, waiting_max=100)
    served: list[str] = []
    begin = asyncio.Event()

    async def call(caller: str) -> None:
        async with work.turn(caller) as turn:
            await begin.wait()
            served.append(caller)
            await turn.pause()

    calls = [asyncio.create_task(call("greedy")) for _ in range(30)]
    calls += [asyncio.create_task(call(name)) for name in ("a", "b", "a")]
    await settle()
    begin.set()
    await asyncio.gather(*calls)
    assert served[TURNS_MAX : TURNS_MAX + 5] == ["greedy", "a", "b", "greedy", "a"]
    assert len(served) == 33
    assert work.waiting == 0
    assert work.counters.turns == 33


async def test_principals_of_a_tenant_share_its_turns() -> None:
    work, served, begin = LongWork(None, waiting_max=100), list[str](), asyncio.Event()

    async def call(tenant: str, principal: str) -> None:
        work_for(tenant)
        async with work.turn(principal) as turn:
            await begin.wait()
            served.append(tenant)
            await turn.pause()

    calls = [asyncio.create_task(call("many", f"p{number}")) for number in range(30)]
    calls += [asyncio.create_task(call("one", "alice")) for _ in range(2)]
    await settle()
    begin.set()
    await asyncio.gather(*calls)
    assert served[TURNS_MAX : TURNS_MAX + 4] == ["many", "one", "many", "one"]


async def test_no_more_turns_than_threads_run_at_once() -> None:
    work = LongWork(None, waiting_max=100)
    now, most = 0, 0

    async def call(number: int) -> None:
        nonlocal now, most
        async with work.turn(str(number % 4)) as turn:
            now += 1
            most = max(most, now)
            for _ in range(5):
                await turn.pause()
            now -= 1

    await asyncio.gather(*(call(number) for number in range(20)))
    assert (now, most) == (0, TURNS_MAX)


async def test_a_caller_with_too_many_waiting_calls_is_rejected_and_others_are_not() -> None:
    threads = Threads()
    work = LongWork(threads, waiting_max=3)

    async def call(caller: str) -> None:
        async with work.turn(caller) as turn:
            await turn.off_loop(int)

    calls = [asyncio.create_task(call("greedy")) for _ in range(TURNS_MAX + 3)]
    await settle()
    with pytest.raises(ExcessivePending, match="greedy"):
        await call("greedy")
    other = asyncio.create_task(call("other"))
    while not all(task.done() for task in (*calls, other)):
        await settle()
        if threads.waiting:
            threads.finish()
    assert work.counters.rejected == 1
    assert work.waiting == 0


async def test_python_code_on_a_thread_yields_the_lock_after_each_piece() -> None:
    def code(pause: Callable[[], None]) -> int:
        for _ in range(5):
            pause()
        return 7

    for threads in (Threads(), None):
        work = LongWork(threads, waiting_max=10)

        async def call(work: LongWork = work) -> int:
            async with work.turn("a") as turn:
                return await turn.in_pieces(code)

        task = asyncio.create_task(call())
        await settle()
        if threads is not None:
            threads.finish()
        assert await task == 7
        assert threads is None or threads.yields == 5
        assert work.counters.pauses == 5


async def test_many_items_are_converted_in_pieces_and_few_at_once() -> None:
    work = LongWork(None, waiting_max=10)
    assert await work.each("a", range(SHORT_ITEMS), str) == list(map(str, range(SHORT_ITEMS)))
    assert work.counters.turns == 0
    many = range(3 * SHORT_ITEMS + 1)
    assert await work.each("a", many, str) == list(map(str, many))
    assert (work.counters.turns, work.counters.pauses) == (1, 4)


async def test_others_have_passes_of_the_loop_to_themselves_between_two_pieces() -> None:
    work, passes = LongWork(None, waiting_max=10), 0
    pieces: list[int] = []  # in which pass each was

    async def scan(tenant: str) -> None:
        work_for(tenant)
        for _ in range(4):
            await work.pause()
            pieces.append(passes)

    scans = [asyncio.create_task(scan(name)) for name in ("a", "b", "a")]
    while not all(task.done() for task in scans):
        await asyncio.sleep(0)
        passes += 1
    assert len(pieces) == 12
    assert all(later - former > PASSES_BETWEEN for former, later in pairwise(pieces))


async def test_items_count_by_their_weight() -> None:
    work = LongWork(None, waiting_max=10)
    rows = [range(SHORT_ITEMS // 2), range(SHORT_ITEMS // 2), range(0), range(9 * SHORT_ITEMS)]
    assert await work.each("a", rows[:2], len, weight=len) == [128, 128]
    assert work.counters.turns == 0
    assert await work.each("a", rows, len, weight=len) == [128, 128, 0, 9 * SHORT_ITEMS]
    assert (work.counters.turns, work.counters.pauses) == (1, 3)
    assert await work.each("a", (), len, weight=len) == []


async def test_a_cancelled_call_keeps_its_turn_until_its_thread_is_free() -> None:
    threads = Threads()
    work = LongWork(threads, waiting_max=10)

    async def call() -> None:
        async with work.turn("a") as turn:
            await turn.off_loop(int)

    calls = [asyncio.create_task(call()) for _ in range(TURNS_MAX + 1)]
    await settle()
    for task in calls[:TURNS_MAX]:
        task.cancel()
    await settle()
    assert len(threads.waiting) == TURNS_MAX
    threads.finish()
    await settle()
    assert len(threads.waiting) == TURNS_MAX  # the third call has begun
    threads.finish()
    threads.finish()
    await calls[TURNS_MAX]


async def test_a_call_that_is_cancelled_while_it_waits_leaves_no_trace() -> None:
    work = LongWork(None, waiting_max=10)
    hold = asyncio.Event()

    async def call() -> None:
        async with work.turn("a"):
            await hold.wait()

    calls = [asyncio.create_task(call()) for _ in range(TURNS_MAX + 2)]
    await settle()
    calls[-1].cancel()
    await settle()
    assert work.waiting == 1
    hold.set()
    await asyncio.gather(*calls, return_exceptions=True)
    async with work.turn("b"), work.turn("b"):
        assert work.waiting == 0


async def test_an_error_ends_a_turn() -> None:
    work = LongWork(None, waiting_max=10)
    for _ in range(2 * TURNS_MAX):
        with pytest.raises(ZeroDivisionError):
            async with work.turn("a") as turn:
                await turn.off_loop(divmod, 1, 0)


async def test_of_the_turns_under_way_one_has_a_piece_in_each_pass_of_the_loop() -> None:
    work = LongWork(None, waiting_max=100)
    passes, pieces = 0, list[tuple[int, str]]()

    async def call(caller: str) -> None:
        async with work.turn(caller) as turn:
            for _ in range(20):
                await turn.pause()
                pieces.append((passes, caller))

    calls = [asyncio.create_task(call(name)) for name in ("a", "b")]
    while not all(call.done() for call in calls):
        await asyncio.sleep(0)
        passes += 1
    assert len({number for number, _ in pieces}) == len(pieces) == 40
    assert [caller for _, caller in pieces] == ["a", "b"] * 20


async def test_a_call_cancelled_in_a_pause_does_not_hold_up_the_other() -> None:
    work = LongWork(None, waiting_max=100)
    done = 0

    async def call() -> None:
        nonlocal done
        async with work.turn("a") as turn:
            for _ in range(20):
                await turn.pause()
            done += 1

    calls = [asyncio.create_task(call()) for _ in range(TURNS_MAX)]
    await asyncio.sleep(0)
    calls[0].cancel()
    await asyncio.wait(calls)
    assert done == TURNS_MAX - 1


async def test_pieces_of_tenants_alternate_whatever_they_have_under_way() -> None:
    work, order = LongWork(None, 1), list[str]()

    async def call(tenant: str, pieces: int) -> None:
        work_for(tenant)
        for _ in range(pieces):
            await work.pause()
            order.append(tenant)

    many = [asyncio.ensure_future(call("many", 3)) for _ in range(100)]
    await asyncio.sleep(0)
    await call("one", 5)
    assert len(order) <= 2 * 5 + 1, "each has every second piece"
    await asyncio.gather(*many)


async def test_works_begin_a_few_at_a_time_and_the_first_error_waits_for_all() -> None:
    work, begun, ended = LongWork(None, waiting_max=10), list[int](), list[int]()

    async def one(number: int) -> int:
        begun.append(number)
        await asyncio.sleep(0.01 * number)
        ended.append(number)
        if number in (2, 4):
            raise ValueError(number)
        return number

    task = asyncio.create_task(work.gather([one(number) for number in range(6)], begun=2))
    for _ in range(2):
        await asyncio.sleep(0)
    assert begun == [0, 1]
    with pytest.raises(ValueError, match="2"):
        await task
    assert ended == list(range(6))
    assert await work.gather([one(number) for number in (0, 1, 3)], begun=2) == [0, 1, 3]
