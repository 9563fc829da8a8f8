"""NativeCrew: commits on threads of the accelerator, which need no interpreter lock.

The accelerator is optional: native/commits.c, built with a wheel of a platform or by ``make
accelerator``. It does the same calls in the same order as ``disk.commit_at``.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, cast

from opentalos.adapters.io_crew import Done, Job, Left, Slot
from opentalos.adapters.local.disk import ONE_CALL_BYTES_MAX, commit_at, deleted, taken_over
from opentalos.adapters.loop_outbox import complete_all
from opentalos.adapters.store_path import FENCE_SUFFIX
from opentalos.adapters.thread_start import not_started
from opentalos.model.errors import ConfigError

if TYPE_CHECKING:
    from opentalos.adapters.local._native import Pool

AUTO, OFF, REQUIRED = "auto", "off", "required"  # whether the accelerator is used
INTERFACE: Final = 1  # of the module; one that was built from other sources is not used


def load_accelerator(wanted: str) -> ModuleType | None:
    """The module to use; None: Python's threads serve.

    Raises: ConfigError: it is required, and absent or of another build.
    """
    if wanted == OFF:
        return None
    try:
        import opentalos.adapters.local._native as native

        if native.INTERFACE == INTERFACE:
            return native
        reason = f"it has interface {native.INTERFACE}, not {INTERFACE}"
    except ImportError as error:
        reason = str(error)
    if wanted == REQUIRED:
        raise ConfigError(
            f'[storage] accelerator = "required", but it cannot be used: {reason}; install the '
            "wheel of this platform, or build it (docs/how-to/install.md)"
        )
    return None


class NativeCrew:
    """Threads that run ``disk.commit_at`` and nothing else; see Crew.

    The bytes of a commit are held until it is reaped on the loop, whatever becomes of its caller.
    """

    def __init__(self, module: ModuleType, threads_max: int) -> None:
        self._native: Any = module
        self._pool: Pool = module.Pool(threads_max, ONE_CALL_BYTES_MAX)
        self._slots: dict[int, Slot] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._done: Done | None = None
        self._left: Left | None = None

    def open(self, loop: asyncio.AbstractEventLoop, done: Done, left: Left) -> None:
        """See Crew."""
        self._loop, self._done, self._left = loop, done, left
        loop.add_reader(self._pool.fileno(), self._reap)

    def start(self, name: str) -> Slot:
        """See Crew."""
        try:
            number = self._pool.start(name)
        except (OSError, MemoryError) as error:
            raise not_started(name, error) from error
        slot = self._slots[number] = Slot(number)
        return slot

    def put(self, job: Job) -> None:
        """See Crew."""
        work, (_name, fd, chunks, length, synced, path), _finished = job
        assert work is commit_at
        self._pool.submit(job, fd, chunks, length, synced, os.fsencode(path + FENCE_SUFFIX))

    def dismiss(self) -> None:
        """See Crew."""
        self._pool.dismiss()

    def withdraw(self) -> Job | None:
        """See Crew."""
        return cast(Job | None, self._pool.withdraw())

    def busy_s(self, slot: Slot) -> float:
        """See Crew."""
        return self._pool.busy_s(slot.number)

    def close(self) -> None:
        """See Crew."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._pool.fileno())

    def _reap(self) -> None:
        """On the loop, once per burst of completions."""
        done, left = self._done, self._left
        assert done is not None
        assert left is not None
        assert self._loop is not None
        slots = self._slots
        calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        # All slots are looked up first: a completion may start a thread in one that became free.
        for number, job, outcome, length, seconds in self._pool.reap():
            if job is None:
                calls.append((left, (slots.pop(number),)))
                continue
            _work, args, finished = cast(Job, job)
            error = None if outcome == self._native.DONE else self._error(outcome, args[0])
            calls.append((done, (slots[number], finished, (length, error, seconds))))
        complete_all(self._loop, calls)

    def _error(self, outcome: int, name: str) -> Exception:
        """What ``disk.commit_at`` raises in this case."""
        if outcome == self._native.FENCED:
            return taken_over(name)
        if outcome == self._native.DELETED:
            return deleted(name)
        return OSError(outcome, os.strerror(outcome))
