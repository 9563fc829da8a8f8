"""Threads that hang are replaced, and no completion is lost."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from tests.waiting import elapse, eventually_async, limit_s, stays_async

from opentalos.adapters import io_threads, thread_start
from opentalos.adapters.io_threads import IoThreads
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable


@pytest.fixture(autouse=True)
def short_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_threads, "STALL_S", 0.01)


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Whether the system refuses threads from now on, as it does at the limit of processes."""
    start = threading.Thread.start
    monkeypatch.setattr(thread_start._failures, "logged_s", float("-inf"))

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def switch(refused: bool) -> None:
        monkeypatch.setattr(threading.Thread, "start", refuse if refused else start)

    return switch


def failing() -> None:
    raise ValueError("on purpose")


async def live_is(threads: IoThreads, count: int) -> None:
    what = f"{count} threads are live"
    await eventually_async(what, lambda: threads.live == count, state=lambda: threads.live)


async def test_results_and_errors_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_threads, "STALL_S", limit_s())  # a busy machine may hold jobs up
    monkeypatch.setattr(io_threads, "SLOW_JOB_S", limit_s())
    threads = IoThreads("t", threads=2)
    assert await asyncio.gather(*(threads.run(pow, n, 2) for n in range(50))) == [
        n * n for n in range(50)
    ]
    with pytest.raises(ValueError, match="on purpose"):
        await threads.run(failing)
    assert threads.live <= 2
    assert await threads.close(deadline_s=limit_s())
    assert threads.live == 0


async def test_a_job_that_yields_the_lock_lets_the_loop_run() -> None:
    threads, ended = IoThreads("t", threads=1), threading.Event()

    def job() -> str:
        while not ended.is_set():
            threads.yield_lock()
        return "done"

    running = asyncio.create_task(threads.run(job))
    for _ in range(100):
        await asyncio.sleep(0)
    ended.set()
    assert await running == "done"
    assert await threads.close(deadline_s=limit_s())


async def test_hanging_jobs_are_replaced_and_leave_afterwards() -> None:
    threads, gate = IoThreads("t", threads=2), threading.Event()
    hanging = [asyncio.ensure_future(threads.run(gate.wait)) for _ in range(6)]
    await asyncio.sleep(0)
    for number in range(20):
        assert await threads.run(pow, number, 1) == number
    assert threads.live > 2
    gate.set()
    assert await asyncio.gather(*hanging) == [True] * 6
    assert await threads.close(deadline_s=limit_s())
    assert threads.live == 0


async def test_surplus_threads_leave() -> None:
    threads, gate = IoThreads("t", threads=1), threading.Event()
    hanging = [asyncio.ensure_future(threads.run(gate.wait)) for _ in range(4)]
    await asyncio.sleep(0)
    await threads.run(int)
    gate.set()
    await asyncio.gather(*hanging)

    async def one_is_left() -> bool:
        await threads.run(int)
        return threads.live == 1

    assert await eventually_async("the surplus threads leave", one_is_left)
    await threads.close(deadline_s=limit_s())


async def test_threads_that_linger_serve_the_next_burst_and_leave_once_idle() -> None:
    """Each start of a thread holds up the loop, and jobs that hang come back together."""
    threads = IoThreads("t", threads=4, threads_max=4, linger_s=3_600.0)
    used: set[int] = set()

    def hang(gate: threading.Event) -> None:
        used.add(threading.get_native_id())
        gate.wait()

    for _ in range(3):
        gate = threading.Event()
        jobs = [asyncio.ensure_future(threads.run(hang, gate)) for _ in range(4)]
        await eventually_async("all four hang", lambda: threads._stalled == 4)
        gate.set()
        await asyncio.gather(*jobs)
        await asyncio.sleep(0)
    assert len(used) <= 4
    assert threads.live == 4
    threads._dismiss_idle()
    assert threads.live == 4, "the burst before needed them"
    threads._dismiss_idle()
    await live_is(threads, 0)
    assert await threads.run(pow, 3, 2) == 9
    assert await threads.close(deadline_s=limit_s())
    assert threads.live == 0


async def test_a_thread_whose_job_outlasts_the_linger_time_stays() -> None:
    threads, gate = IoThreads("t", threads=2, linger_s=0.02), threading.Event()
    hanging = asyncio.ensure_future(threads.run(gate.wait))
    await threads.run(int)
    await live_is(threads, 1)
    await stays_async("the thread stays while its job hangs", lambda: threads.live == 1)
    assert await threads.run(pow, 3, 2) == 9
    gate.set()
    assert await hanging
    assert await threads.close(deadline_s=limit_s())


async def test_threads_are_bounded() -> None:
    threads, gate = IoThreads("t", threads=1, threads_max=3), threading.Event()
    hanging = [asyncio.ensure_future(threads.run(gate.wait)) for _ in range(8)]
    await live_is(threads, 3)
    waiting = asyncio.ensure_future(threads.run(int))
    await stays_async(
        "a further job waits, and starts no thread",
        lambda: threads.live == 3 and not waiting.done(),
    )
    gate.set()
    await asyncio.gather(*hanging, waiting)
    await threads.close(deadline_s=limit_s())


async def test_close_finishes_what_was_submitted_and_refuses_more() -> None:
    threads = IoThreads("t", threads=1)
    done: list[int] = []
    for number in range(20):
        threads.submit(done.append, (number,), lambda *_: None)
    assert await threads.close(deadline_s=limit_s())
    assert done == list(range(20))
    with pytest.raises(StoreUnavailable):
        threads.submit(int, (), lambda *_: None)


async def test_close_is_bounded_and_wakes_all_waiters() -> None:
    threads, gate = IoThreads("t", threads=1), threading.Event()
    hanging = asyncio.ensure_future(threads.run(gate.wait))
    await asyncio.sleep(0)
    assert not await threads.close(deadline_s=0.02)
    with pytest.raises(OutcomeUnknown):
        await hanging
    gate.set()


async def test_a_completion_that_raises_loses_no_other(caplog: pytest.LogCaptureFixture) -> None:
    threads = IoThreads("t", threads=1)
    threads.submit(int, (), lambda *_: failing())
    assert await threads.run(pow, 3, 2) == 9
    assert "on purpose" in caplog.text
    await threads.close(deadline_s=limit_s())


async def test_threads_are_daemons_and_named() -> None:
    threads = IoThreads("store-io", threads=1)
    thread = await threads.run(threading.current_thread)
    assert thread.daemon
    assert thread.name.startswith("store-io")
    await threads.close(deadline_s=limit_s())


async def test_slow_jobs_start_no_thread_each() -> None:
    threads = IoThreads("t", threads=2, threads_max=6)
    used: set[int] = set()

    def slow() -> None:
        used.add(threading.get_ident())
        elapse("the job stalls", 3 * io_threads.STALL_S)

    await asyncio.gather(*(threads.run(slow) for _ in range(40)))
    assert len(used) <= 6
    await threads.close(deadline_s=limit_s())


async def test_a_thread_that_did_not_start_is_not_counted(
    no_threads: Callable[[bool], None], caplog: pytest.LogCaptureFixture
) -> None:
    threads, before = IoThreads("t", threads=2), thread_start.thread_start_failures()
    no_threads(True)
    for _ in range(3):
        with pytest.raises(StoreUnavailable, match="cannot start thread"):
            await threads.run(int)
    assert threads.live == 0
    assert thread_start.thread_start_failures() == before + 3
    assert len([line for line in caplog.records if "ulimit" in line.message]) == 1
    no_threads(False)
    assert await asyncio.gather(*(threads.run(pow, n, 1) for n in range(9))) == list(range(9))
    assert await threads.close(deadline_s=limit_s())


async def test_without_further_threads_jobs_wait_for_the_present_ones(
    no_threads: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io_threads, "START_RETRY_S", 0.0)
    threads, gate = IoThreads("t", threads=2), threading.Event()
    hanging = asyncio.ensure_future(threads.run(gate.wait))
    await asyncio.sleep(0)
    no_threads(True)
    waiting = [asyncio.ensure_future(threads.run(pow, n, 1)) for n in range(5)]
    await stays_async("the jobs wait", lambda: not any(job.done() for job in waiting))
    no_threads(False)  # a later look starts the thread that is missing, without a new job
    assert await asyncio.gather(*waiting) == list(range(5))
    gate.set()
    await hanging
    assert await threads.close(deadline_s=limit_s())


async def test_jobs_that_no_thread_can_serve_are_refused_as_not_done(
    no_threads: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io_threads, "NO_THREAD_S", 0.05)
    threads = IoThreads("t", threads=1, linger_s=0.01)
    assert await threads.run(pow, 2, 2) == 4
    await live_is(threads, 0)
    no_threads(True)
    with pytest.raises(StoreUnavailable):
        await threads.run(int)
    no_threads(False)
    assert await threads.run(pow, 3, 2) == 9
    assert await threads.close(deadline_s=limit_s())
