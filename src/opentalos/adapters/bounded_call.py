"""A limit of time for calls of a library that cannot be cancelled.

``deltalake`` has waited without an end for HDFS, with the store up and other tables readable. Such
a call is left in a thread of its own, which does not keep the process, and the caller gets an
error after which it may repeat.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

from opentalos.adapters.thread_start import start_thread
from opentalos.model.errors import StoreUnavailable

ResultT = TypeVar("ResultT")
CALLS_MAX: Final = 16  # at once in this process; those that were left count, and hold memory

_calls = threading.BoundedSemaphore(CALLS_MAX)


def answered(call: Callable[[], ResultT], within_s: float) -> ResultT:
    """What the call returns.

    Raises: TimeoutError: it has not returned by then, and may still do what it does;
            StoreUnavailable: not called, too many calls have not returned or there is no thread;
            what the call raises.
    """
    calls = _calls
    if not calls.acquire(blocking=False):
        raise StoreUnavailable(
            f"{CALLS_MAX} calls of the store have not returned; restart this process if it persists"
        )
    answer: Future[ResultT] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # raised where the answer is awaited
            answer.set_exception(error)
        finally:
            calls.release()

    try:
        start_thread("bounded-call", run)
    except StoreUnavailable:
        calls.release()
        raise
    try:
        return answer.result(within_s)
    except TimeoutError as error:
        if answer.done():
            raise
        raise TimeoutError(f"no answer within {within_s:g} s") from error
