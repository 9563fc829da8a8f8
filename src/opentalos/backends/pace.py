"""What this machine can do now: limits of waits grow with it, and errors name it."""

import os
import statistics
import time
from typing import Final

import psutil

_WORK_S: Final = 0.07  # of ``_work`` on a quiet core of 2024
_SAMPLES: Final = 3
_CORES: Final = 2  # on one, servers and backends wait for each other
_SLOWNESS_MAX: Final = 8.0
_MB: Final = 1_000_000


def slowness() -> float:
    """How much slower this machine is now than two quiet cores of 2024: from 1 to 8."""
    return slowness_of(statistics.median(_work() for _ in range(_SAMPLES)), cores())


def slowness_of(work_s: float, cores_count: int) -> float:
    """The same for a machine that needs ``work_s`` seconds for the fixed piece of work."""
    slow = max(1.0, work_s / _WORK_S) * max(1.0, _CORES / cores_count)
    return min(slow, _SLOWNESS_MAX)


def cores() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_free_mb() -> int:
    """Memory that is available without swapping."""
    return int(psutil.virtual_memory().available) // _MB


def machine_text() -> str:
    """The machine in one clause."""
    return (
        f"this machine has {cores()} cores with a load of {os.getloadavg()[0]:.1f}, and "
        f"{memory_free_mb():,} MB of memory free"
    )


def too_slow() -> str:
    """The remedy for what took too long: probably the machine is too small or too busy."""
    return f"{machine_text()}: end other programs, or use a larger one, and try again"


def _work() -> float:
    """Seconds that a fixed piece of work takes now."""
    began = time.perf_counter()
    sum(number & 7 for number in range(1_000_000))
    return time.perf_counter() - began
