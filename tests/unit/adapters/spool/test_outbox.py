"""The outbox: nothing is lost while the queue refuses, and order is kept."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.waiting import eventually_async, limit_s

from opentalos.adapters.spool import Outbox, Spool
from opentalos.adapters.spool import outbox as outbox_module
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, TalosError


class Queue:
    """Takes puts, or refuses them as the test says."""

    def __init__(self) -> None:
        self.stored: list[bytes] = []
        self.error: Exception | None = None
        self.stores_all_the_same = False
        self.hangs = False
        self.tries = 0

    async def put(self, events: Sequence[bytes]) -> None:
        self.tries += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is None or self.stores_all_the_same:
            self.stored += events
        if self.error is not None:
            raise self.error


@asynccontextmanager
async def outbox(folder: Path, queue: Queue, bytes_max: int = 1 << 20) -> AsyncIterator[Outbox]:
    made = Outbox(Spool(folder, bytes_max), queue.put)
    await made.start()
    yield made
    await made.close(limit_s())


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take its time until all is on disk."""
    monkeypatch.setattr(outbox_module, "_CLOSE_S", limit_s())


def events(first: int, last: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, last)]


async def test_what_is_offered_is_put(tmp_path: Path) -> None:
    queue = Queue()
    async with outbox(tmp_path, queue) as made:
        made.offer(events(0, 1_200))
        await eventually_async("1,200 events are stored", lambda: len(queue.stored) == 1_200)
        assert made.figures == (0, 0, 0)
    assert queue.stored == events(0, 1_200)
    assert queue.tries == 3


@pytest.mark.parametrize("error", [StoreUnavailable("down"), OutcomeUnknown("who knows")])
async def test_order_is_kept_over_a_time_without_the_queue(
    tmp_path: Path, error: TalosError
) -> None:
    queue = Queue()
    async with outbox(tmp_path, queue) as made:
        made.offer(events(0, 3))
        await eventually_async("3 events are stored", lambda: len(queue.stored) == 3)
        queue.error = error
        for step in range(3, 30, 3):
            tries = queue.tries
            made.offer(events(step, step + 3))
            await eventually_async(
                "the put is tried",
                lambda tries=tries: queue.tries > tries,  # type: ignore[misc]
            )
        await eventually_async("events are on disk", lambda: made.figures.bytes_count > 0)
        queue.error = None
        made.offer(events(30, 33))
        await eventually_async("33 events are stored", lambda: len(queue.stored) == 33)
        await eventually_async("files go after their events", lambda: made.figures == (0, 0, 0))
    assert queue.stored == events(0, 33)


async def test_an_unknown_put_is_repeated_with_the_same_events(tmp_path: Path) -> None:
    queue = Queue()
    queue.error, queue.stores_all_the_same = OutcomeUnknown("cut"), True
    async with outbox(tmp_path, queue) as made:
        made.offer(events(0, 5))
        await eventually_async("events are on disk", lambda: made.figures.bytes_count > 0)
        queue.error = None
        made.offer(events(5, 6))
        await eventually_async("the last event is stored", lambda: queue.stored[-1:] == [b"5"])
    assert queue.stored == events(0, 5) + events(0, 6)


async def test_what_is_left_at_the_end_waits_for_the_next_start(tmp_path: Path) -> None:
    queue = Queue()
    queue.error = StoreUnavailable("down")
    async with outbox(tmp_path, queue) as made:
        made.offer(events(0, 10))
    assert queue.stored == []
    queue.error = None
    async with outbox(tmp_path, queue):
        await eventually_async("10 events are stored", lambda: len(queue.stored) == 10)
    assert queue.stored == events(0, 10)


async def test_the_last_events_are_kept_for_the_next_start(tmp_path: Path) -> None:
    queue = Queue()
    made = Outbox(Spool(tmp_path, 1 << 20), queue.put)
    await made.start()
    made.offer(events(0, 3))
    await made.close(limit_s(), events(3, 5))
    assert queue.stored == events(0, 3)
    async with outbox(tmp_path, queue):
        await eventually_async("5 events are stored", lambda: len(queue.stored) == 5)
    assert queue.stored == events(0, 5)


async def test_a_put_that_hangs_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    queue = Queue()
    queue.hangs = True
    made = Outbox(Spool(tmp_path, 1 << 20), queue.put)
    await made.start()
    made.offer(events(0, 10))
    await eventually_async("the put is tried", lambda: queue.tries == 1)
    made.offer(events(10, 12))
    await made.close(0.05)
    again = Queue()
    async with outbox(tmp_path, again):
        await eventually_async("12 events are stored", lambda: len(again.stored) == 12)
    assert again.stored == events(0, 12)


async def test_memory_is_bounded_while_a_put_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_module, "PENDING_MAX", 10)
    queue = Queue()
    queue.hangs = True
    made = Outbox(Spool(tmp_path, 1 << 20), queue.put)
    await made.start()
    made.offer(events(0, 25))
    assert made.figures.dropped == 15
    await made.close(0.01)


async def test_a_bug_in_a_put_does_not_end_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue()
    queue.error = RuntimeError("a bug")
    async with outbox(tmp_path, queue) as made:
        made.offer(events(0, 2))
        await eventually_async("the put is tried", lambda: queue.tries == 1)
        queue.error = None
        made.offer(events(2, 4))
        await eventually_async("4 events are stored", lambda: len(queue.stored) == 4)
    assert queue.stored == events(0, 4)
    assert "could not publish events" in caplog.text


async def test_failing_puts_are_logged_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    queue = Queue()
    queue.error = StoreUnavailable("no room")
    async with outbox(tmp_path, queue) as made:
        for step in range(5):
            made.offer(events(step, step + 1))
            await eventually_async(
                "the put is tried",
                lambda step=step: queue.tries > step,  # type: ignore[misc]
            )
    assert caplog.text.count("keeping them on disk: no room") == 1
