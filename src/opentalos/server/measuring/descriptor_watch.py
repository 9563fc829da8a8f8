"""Notices that the process, or the machine, has no free descriptor.

The loop's listener closes or keeps waiting what it cannot accept, without a word, and clients see
resets or timeouts only.
"""

import asyncio
import errno
import logging
import os

_CHECK_S = 1.0
_REPORT_S = 60.0  # between two log lines
_EXHAUSTED = (errno.EMFILE, errno.ENFILE)
_log = logging.getLogger("opentalos.descriptors")


class DescriptorWatch:
    """Opens a directory once a second, and closes it again."""

    def __init__(self) -> None:
        self.exhausted = 0  # checks that found none free
        self._lacking = False
        self._reported_s = float("-inf")
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Check on the running loop until ``stop``."""
        self._timer = asyncio.get_running_loop().call_later(_CHECK_S, self._check)

    def stop(self) -> None:
        """Check no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        self.start()
        try:
            os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._note(error)
            return
        if self._lacking:
            self._lacking = False
            _log.warning("descriptors are available again")

    def _note(self, error: OSError) -> None:
        self.exhausted += 1
        self._lacking = True
        now_s = asyncio.get_running_loop().time()
        if now_s - self._reported_s > _REPORT_S:
            self._reported_s = now_s
            _log.error(
                "no free descriptor: %s; new connections are not served and files cannot be "
                "opened; raise the limit (ulimit -n) or lower [http] connections_max",
                error.strerror,
            )
