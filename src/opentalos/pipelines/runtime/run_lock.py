"""The right to run a pipeline on its checkpoint: one process at a time."""

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

_ORPHAN_S = 10.0  # a killed run's Java ends when it sees that its Python is gone; then it is ended
_POLL_S = 0.1


class RunLock:
    """A lock that ends with its process (flock), and who has it.

    A killed Python lets go at once, while its Java may still finish a batch on the checkpoint. So
    the owner notes its Java, and the next one waits for the end of that.
    """

    def __init__(self, home: Path, name: str) -> None:
        self._name = name
        self.path = home / "checkpoints" / f"{name}.lock"
        self._file: int | None = None

    def owner(self) -> dict[str, Any] | None:
        """What the owner noted; None if nobody has it."""
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
        """Take it. Raises: ConfigError: another process has it; the text names its pid."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            pid = self._noted().get("pid", "unknown")
            home = self.path.parent.parent
            raise ConfigError(f"{self._name} already runs on {home}, by pid {pid}") from None
        self._file = file
        _end_orphan(self._noted())
        me = {"pid": os.getpid(), "began": psutil.Process().create_time()}
        self._note({**me, "host": socket.gethostname(), "supervised": supervised})

    def note_java(self, pid: int) -> None:
        """Say which Java works on the checkpoint."""
        self._note({**self._noted(), "java": pid, "java_began": psutil.Process(pid).create_time()})

    def kill_owner(self) -> None:
        """SIGKILL for the owner, if it is a process of this machine."""
        noted = self.owner() or {}
        if noted.get("host") == socket.gethostname():
            with suppress(psutil.NoSuchProcess, KeyError):
                owner = psutil.Process(noted["pid"])
                if owner.create_time() == noted["began"]:
                    owner.kill()

    def release(self) -> None:
        """Give it back, after the end of this process's Java or of its use of the checkpoint."""
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
