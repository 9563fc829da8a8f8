"""Faults of a disk on request: for tests and benchmarks only, never for a server in use."""

import errno
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

_HANG_S_MAX = 600.0  # a forgotten hang must not keep a thread forever


@dataclass(slots=True)
class LocalFaults:
    """What goes wrong in commits; may be changed while the store runs.

    ``partial_bytes`` of a failing commit reach the file before its error, as on a full disk.
    """

    sync_delay_s: float = 0.0  # added to every sync
    hang_prefix: str | None = None  # commits of paths that start so wait for ``release``
    error_prefix: str | None = None  # commits of paths that start so fail with ``error_number``
    error_number: int = errno.EIO
    partial_bytes: int = 0
    _released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """End the hang: waiting commits continue, later ones do not wait."""
        self.hang_prefix = None
        self._released.set()

    def before_commit(
        self, path: str, fd: int, chunks: Sequence[bytes | memoryview], position: int
    ) -> None:
        """Called on the I/O thread in place of luck. Raises: OSError of ``error_number``."""
        if self.hang_prefix is not None and path.startswith(self.hang_prefix):
            self._released.wait(_HANG_S_MAX)
        if self.error_prefix is not None and path.startswith(self.error_prefix):
            if self.partial_bytes:
                os.pwrite(fd, b"".join(chunks)[: self.partial_bytes], position)
            raise OSError(self.error_number, os.strerror(self.error_number))
        if self.sync_delay_s:
            time.sleep(self.sync_delay_s)
