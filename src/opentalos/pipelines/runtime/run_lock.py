"""A lock for each pipeline and checkpoint: one process at a time may run it."""

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from opentalos.model.errors import ConfigError

_ORPHAN_S = 10.0  # time for a killed run's Java to exit by itself; then it is killed
_POLL_S = 0.1


class RunLock:
    """An flock, which the system releases when the process ends, with a note about its owner.

    A killed Python process releases the lock at once, while its Java process may still finish a
    batch on the checkpoint. So the owner notes its Java process, and the next owner waits until
    that has exited.
    """

    def __init__(self, home: Path, name: str) -> None:
        self._name = name
        self.path = home / "checkpoints" / f"{name}.lock"
        self._file: int | None = None

    def owner(self) -> dict[str, Any] | None:
        """The owner's note; None if the lock is free."""
        try:
            file = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return self._noted()
        else:
            return None
        finally:
            os.close(file)

    def take(self, *, supervised: bool = False) -> None:
        """Take the lock. Raises: ConfigError: another process, named by its pid, holds it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            pid = self._noted().get("pid", "unknown")
            home = self.path.parent.parent
            raise ConfigError(f"{self._name} is already running on {home} (pid {pid})") from None
        self._file = file
        _end_orphan(self._noted())
        me = {"pid": os.getpid(), "began": psutil.Process().create_time()}
        self._note({**me, "host": socket.gethostname(), "supervised": supervised})

    def note_java(self, pid: int) -> None:
        """Note the Java process that works on the checkpoint."""
        self._note({**self._noted(), "java": pid, "java_began": psutil.Process(pid).create_time()})

    def kill_owner(self) -> None:
        """Send SIGKILL to the owner, if it is a process of this machine."""
        noted = self.owner() or {}
        if noted.get("host") == socket.gethostname():
            with suppress(psutil.NoSuchProcess, KeyError):
                owner = psutil.Process(noted["pid"])
                if owner.create_time() == noted["began"]:
                    owner.kill()

    def release(self) -> None:
        """Release it, after this process's Java has exited or no longer uses the checkpoint."""
        if self._file is not None:
            self._note({})
            os.close(self._file)
            self._file = None

    def _noted(self) -> dict[str, Any]:
        try:
            noted = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return noted if isinstance(noted, dict) else {}

    def _note(self, noted: dict[str, Any]) -> None:
        assert self._file is not None, "not taken"
        text = json.dumps(noted).encode()
        os.pwrite(self._file, text, 0)
        os.ftruncate(self._file, len(text))


def _end_orphan(noted: dict[str, Any]) -> None:
    if noted.get("host") != socket.gethostname():
        return
    deadline = time.monotonic() + _ORPHAN_S
    with suppress(psutil.NoSuchProcess, KeyError):
        java = psutil.Process(noted["java"])
        if java.create_time() != noted["java_began"]:
            return  # a later process with the same pid
        while java.is_running() and java.status() != psutil.STATUS_ZOMBIE:
            if time.monotonic() > deadline:
                java.kill()
                return
            time.sleep(_POLL_S)
