"""The SDK's threads at the limit of processes: an error that may be retried, nothing forgotten."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from tests.waiting import limit_s, within_limit

from opentalos.sdk.aio.producer.failures import Failures
from opentalos.sdk.core.producer.accumulator import Accumulator, Batch
from opentalos.sdk.core.producer.settings import ProducerSettings
from opentalos.sdk.errors import ConnectFailed
from opentalos.sdk.sync import producer_core
from opentalos.sdk.sync.loop_thread import LoopThread


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Whether the system refuses threads from now on."""
    start = threading.Thread.start

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def switch(refused: bool) -> None:
        monkeypatch.setattr(threading.Thread, "start", refuse if refused else start)

    return switch


def test_a_loop_thread_that_cannot_start_is_an_error_to_retry(
    no_threads: Callable[[bool], None],
) -> None:
    no_threads(True)
    with pytest.raises(ConnectFailed, match="cannot start thread"):
        LoopThread("refused")
    no_threads(False)
    thread = LoopThread("started")
    thread.end()


@pytest.mark.real_time
async def test_callbacks_wait_for_a_thread_that_cannot_start_yet(
    no_threads: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_core, "_START_RETRY_S", 0.0)
    loop, finished = asyncio.get_running_loop(), asyncio.Event()
    accumulator = Accumulator(ProducerSettings(), loop.time, lambda: 0.0)
    callbacks = producer_core.Callbacks(accumulator, Failures("t", loop.time))
    batch = Batch(0, 1, 0.0, 0)
    called: list[Batch] = []
    monkeypatch.setattr(Batch, "call_back", lambda each, *_: called.append(each))
    monkeypatch.setattr(Accumulator, "finish", lambda *_: loop.call_soon_threadsafe(finished.set))
    batch.watchers.append(NotImplemented)
    no_threads(True)
    callbacks.settle(batch, 0, None)
    no_threads(False)
    async with within_limit("the callback is called"):
        await finished.wait()
    assert called == [batch]
    callbacks.close()
    thread = callbacks._thread
    assert thread is not None
    await asyncio.to_thread(thread.join, limit_s())
    assert not thread.is_alive(), "it would run into the tests that follow"
