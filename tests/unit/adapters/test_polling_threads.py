"""Threads that repeat a step until they are ended."""

import threading

from opentalos.adapters.polling_threads import PollingThreads

WAIT_S = 60.0


def test_each_step_is_repeated_although_another_one_hangs() -> None:
    threads, goes_on, repeated = PollingThreads(0.001), threading.Event(), threading.Event()
    calls: list[int] = []

    def count() -> None:
        calls.append(1)
        if len(calls) == 5:
            repeated.set()

    def hang() -> None:
        goes_on.wait(WAIT_S)

    threads.start(hang=hang, count=count)
    assert repeated.wait(WAIT_S)
    goes_on.set()
    threads.end(WAIT_S)
    ended = len(calls)
    assert threads.ended_within(WAIT_S)
    assert len(calls) == ended


def test_an_end_waits_for_a_step_that_hangs_only_so_long() -> None:
    threads, began, goes_on = PollingThreads(0.001), threading.Event(), threading.Event()

    def hang() -> None:
        began.set()
        goes_on.wait(WAIT_S)

    threads.start(hang=hang)
    assert began.wait(WAIT_S)
    threads.end(0.01)
    goes_on.set()
