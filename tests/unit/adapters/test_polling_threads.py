"""Threads that repeat a step until they are ended."""

import threading

from tests.waiting import limit_s

from opentalos.adapters.polling_threads import PollingThreads


def test_each_step_is_repeated_although_another_one_hangs() -> None:
    threads, goes_on, repeated = PollingThreads(0.001), threading.Event(), threading.Event()
    calls: list[int] = []

    def count() -> None:
        calls.append(1)
        if len(calls) == 5:
            repeated.set()

    def hang() -> None:
        goes_on.wait(limit_s())

    threads.start(hang=hang, count=count)
    assert repeated.wait(limit_s())
    goes_on.set()
    threads.end(limit_s())
    ended = len(calls)
    assert threads.ended_within(limit_s())
    assert len(calls) == ended


def test_an_end_waits_for_a_step_that_hangs_only_so_long() -> None:
    threads, began, goes_on = PollingThreads(0.001), threading.Event(), threading.Event()

    def hang() -> None:
        began.set()
        goes_on.wait(limit_s())

    threads.start(hang=hang)
    assert began.wait(limit_s())
    threads.end(0.01)
    goes_on.set()
