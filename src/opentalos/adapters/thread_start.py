"""Starts the threads of adapters; says what it means when the system gives no more of them.

The limit of processes (``ulimit -u``, the pids of a container) or memory can be used up at any
moment, by another program too. Python then raises a RuntimeError out of whatever call needed the
thread.
"""

import logging
import threading
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from opentalos.model.errors import StoreUnavailable

_LINE_S: Final = 60.0  # between two log lines about threads that did not start
_log = logging.getLogger(__name__)


class _Failures:
    """Of this process, since its start."""

    def __init__(self) -> None:
        self.count = 0
        self.logged_s = float("-inf")


_failures = _Failures()


def thread_start_failures() -> int:
    """How often this process could not start a thread."""
    return _failures.count


def start_thread(name: str, target: Callable[..., None], *args: Any) -> None:
    """Start a daemon thread; it runs or the error is raised.

    Raises: StoreUnavailable: not done: the system gives no thread now; retry later.
    """
    thread = threading.Thread(target=target, args=args, name=name, daemon=True)
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        raise not_started(name, error) from error


def not_started(name: str, error: Exception) -> StoreUnavailable:
    """Count a thread that did not start, log that now and then; the error to raise."""
    _failures.count += 1
    if monotonic() - _failures.logged_s > _LINE_S:
        _failures.logged_s = monotonic()
        _log.error(
            "cannot start thread %s: %s; raise the limit of processes (ulimit -u, pids of the "
            "container) or free memory",
            name,
            error,
        )
    return StoreUnavailable(f"cannot start thread {name}: {error}")
