"""Sessions of MetaStore clients on one machine: a lock file says whether the client still lives.

The kernel drops the lock when the process ends however it ends, so nothing can be left behind but
an unlocked file, which the next client that looks removes with the session's records.
"""

import contextlib
import fcntl
import os
from pathlib import Path

_TOKEN_BYTES = 8


class SessionLock:
    """Holds this client's lock file from ``hold`` to ``release``. All methods block briefly."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self.token = os.urandom(_TOKEN_BYTES).hex()
        self.fd = -1

    def hold(self) -> None:
        """Take the lock; before the first record that names the token. Idempotent."""
        if self.fd < 0:
            path = _path(self._database, self.token)
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self.fd, fcntl.LOCK_EX)

    def release(self) -> None:
        """End the session; its records must be gone."""
        if self.fd >= 0:
            _path(self._database, self.token).unlink(missing_ok=True)
            os.close(self.fd)
            self.fd = -1


def is_dead(database: Path, token: str) -> bool:
    """Whether the client of that session has ended."""
    try:
        fd = os.open(_path(database, token), os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def forget(database: Path, token: str) -> None:
    """Remove a dead session's file, after its records."""
    with contextlib.suppress(FileNotFoundError):
        _path(database, token).unlink()


def _path(database: Path, token: str) -> Path:
    return database.with_name(f"{database.name}.session-{token}")
