"""Notices that the process, or the machine, has no free descriptor.

The loop's listener closes or keeps waiting what it cannot accept, without a word, and clients see
resets or timeouts only. A call of the file store that found none closes idle files and is repeated,
so it only takes longer.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Callable

from opentalos.adapters.local.descriptors import open_files_max

_CHECK_S = 1.0
_REPORT_S = 60.0  # between two log lines; health shows what happened in this time
_EXHAUSTED = (errno.EMFILE, errno.ENFILE)
_log = logging.getLogger("opentalos.descriptors")


class DescriptorWatch:
    """Opens a directory once a second, and closes it again.

    Args: lacked: how many calls of the stores found no free descriptor, so far.
    """

    def __init__(self, lacked: Callable[[], int] = lambda: 0) -> None:
        self.exhausted = 0  # checks that found none free, or that a call had found none
        self._lacked, self._lacked_before = lacked, 0
        self._lacking = False
        self._seen_s = self._reported_s = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Check on the running loop until ``stop``."""
        self._timer = asyncio.get_running_loop().call_later(_CHECK_S, self._check)

    def stop(self) -> None:
        """Check no more."""
        if self._timer is not None:
            self._timer.cancel()

    def recently(self) -> bool:
        """Whether one lacked in the last minute."""
        return self.exhausted > 0 and asyncio.get_running_loop().time() - self._seen_s < _REPORT_S

    def _check(self) -> None:
        self.start()
        before, self._lacked_before = self._lacked_before, self._lacked()
        calls = self._lacked_before - before
        try:
            os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._note(os.strerror(error.errno))
            return
        if calls:
            self._note(f"{calls} calls of the file store had to wait for one")
        elif self._lacking:
            self._lacking = False
            _log.warning("descriptors are available again")

    def _note(self, reason: str) -> None:
        self.exhausted += 1
        self._lacking = True
        now_s = self._seen_s = asyncio.get_running_loop().time()
        if now_s - self._reported_s > _REPORT_S:
            self._reported_s = now_s
            _log.error(
                "no free descriptor of %d: %s; new connections are not served and files are closed "
                "and opened again, or cannot be opened; raise the limit (ulimit -n, LimitNOFILE= "
                "in a systemd unit) or lower [http] and [kafka] connections_max",
                *(open_files_max(), reason),
            )
