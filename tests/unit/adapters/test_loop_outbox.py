"""Completions on the loop: one that is interrupted, as by Ctrl-C, loses no other."""

import asyncio
import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.adapters.io_crew import Slot
from opentalos.adapters.local.disk import commit_at
from opentalos.adapters.local.native_crew import NativeCrew
from opentalos.adapters.loop_outbox import LoopOutbox

DONE = 0


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def interrupted() -> None:
    raise KeyboardInterrupt


def turn(loop: asyncio.AbstractEventLoop) -> None:
    """What is ready now runs."""
    loop.call_soon(loop.stop)
    loop.run_forever()


def test_calls_after_an_interrupted_one_run_with_the_next_turn(
    loop: asyncio.AbstractEventLoop,
) -> None:
    seen: list[int] = []
    outbox = LoopOutbox(loop)
    outbox.post(seen.append, 1)
    outbox.post(interrupted)
    outbox.post(seen.append, 2)
    outbox.post(interrupted)
    outbox.post(seen.append, 3)
    for expected in ([1], [1, 2]):
        with pytest.raises(KeyboardInterrupt):
            turn(loop)
        assert seen == expected
    turn(loop)
    assert seen == [1, 2, 3]


def test_native_commits_after_an_interrupted_one_are_completed(
    loop: asyncio.AbstractEventLoop,
) -> None:
    readable, writable = os.pipe()
    numbers = range(4)
    jobs = [(commit_at, (f"file {number}",), number) for number in numbers]
    ended = [[(number, jobs[number], DONE, 1, 0.0) for number in numbers] + [(3, None, 0, 0, 0.0)]]

    class Pool:
        def __init__(self, *_limits: int) -> None:
            self._starts = iter(numbers)

        def start(self, _name: str) -> int:
            return next(self._starts)

        def fileno(self) -> int:
            return readable

        def reap(self) -> list[Any]:
            os.read(readable, 1)
            return ended.pop()

    seen: list[Any] = []

    def done(_slot: Slot, finished: Any, _outcome: object) -> None:
        if finished == 1:
            raise KeyboardInterrupt
        seen.append(finished)

    module: Any = SimpleNamespace(Pool=Pool, DONE=DONE)
    crew = NativeCrew(module, 4)
    crew.open(loop, done, lambda slot: seen.append(f"thread {slot.number} left"))
    for number in numbers:
        crew.start(f"t-{number}")
    os.write(writable, b"x")
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
        assert seen == [0]
        turn(loop)
        assert seen == [0, 2, 3, "thread 3 left"]
    finally:
        crew.close()
        os.close(readable)
        os.close(writable)
