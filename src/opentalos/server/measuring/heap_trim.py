"""Returns freed memory to the machine.

The C library keeps what was freed: after a burst of large bodies the process would stay as large as
it was. A trim took 2 to 7 ms on heaps of 150 to 570 MiB.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable

CHECK_S = 10.0
GROWTH = 1.25  # since the last trims, before the next ones
# What made the process grow is mostly freed later: a request has 30 s to arrive. Then it has to be
# trimmed again, and nothing shows that it was freed.
TRIMS = 4  # one in each of so many checks


class HeapTrim:
    """Trims the heap when the process has grown; without glibc it does nothing.

    Args: resident: resident bytes of the process; trim: returns free memory.
    """

    def __init__(
        self,
        resident: Callable[[], int] | None = None,
        trim: Callable[[], object] | None = None,
    ) -> None:
        self._resident = resident or resident_bytes
        self._trim = trim or _glibc_trim()
        self._floor = 0  # resident bytes after the last trims
        self._due = 0  # trims that follow
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Check on the running loop until ``stop``."""
        if self._trim is not None:
            self._floor = self._resident()
            self._schedule()

    def stop(self) -> None:
        """Check no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(CHECK_S, self._check)

    def _check(self) -> None:
        self._schedule()
        if self._due == 0 and self._resident() > GROWTH * self._floor:
            self._due = TRIMS
        if self._due and self._trim is not None:
            self._due -= 1
            self._trim()
            self._floor = self._resident()


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _glibc_trim() -> Callable[[], object] | None:
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):  # another C library
        return None
    return lambda: trim(0)
