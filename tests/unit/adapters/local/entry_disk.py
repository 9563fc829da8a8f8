"""Which directory entries below a folder a power cut would leave, and calls that fail on request.

An entry is durable once a sync of its directory succeeded that followed it, and never if one failed
before: the kernel takes it for stored then. Only making the entry anew helps.
"""

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


class EntryDisk:
    """Watches this process's calls. ``fails(call, path)`` says which of them raise EIO."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = str(folder)
        self.fails: Callable[[str, str], bool] = lambda call, path: False
        self.made: Callable[[str], None] = lambda path: None  # a file was
        self._fresh: set[str] = set()  # no sync followed
        self._lost: set[str] = set()
        self._lock = threading.RLock()
        self._real: dict[str, Callable[..., Any]] = {}
        for name, watched in (
            ("open", self._open),
            ("mkdir", self._mkdir),
            ("unlink", self._unlink),
            ("rmdir", self._rmdir),
            ("fsync", self._fsync),
        ):
            self._real[name] = getattr(os, name)
            monkeypatch.setattr(os, name, watched)

    def durable(self, path: Path) -> bool:
        """Whether a power cut leaves the file and the directories that it is in."""
        with self._lock:
            names = [str(each) for each in (path, *path.parents)]
            return not any(name in self._fresh or name in self._lost for name in names)

    def fail_once(self, call: str, path: Path) -> None:
        """The next such call raises."""
        left = [(call, str(path))]

        def fails(*wanted: str) -> bool:
            if wanted not in left:
                return False
            left.remove((wanted[0], wanted[1]))
            return True

        self.fails = fails

    def _check(self, call: str, path: str) -> None:
        if path.startswith(self.folder) and self.fails(call, path):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def _open(self, path: Any, flags: int, *args: Any, **named: Any) -> int:
        name = os.fspath(path)
        if "dir_fd" in named:
            name = os.path.join(os.readlink(f"/proc/self/fd/{named['dir_fd']}"), name)
        if not flags & os.O_CREAT or not name.startswith(self.folder):
            opened: int = self._real["open"](path, flags, *args, **named)
            return opened
        with self._lock:
            self._check("open", name)
            new = not os.path.lexists(name)
            fd: int = self._real["open"](path, flags, *args, **named)
            if new:
                self._note_made(name)
        if new:
            self.made(name)
        return fd

    def _mkdir(self, path: Any, *args: Any, **named: Any) -> None:
        with self._lock:
            self._check("mkdir", os.fspath(path))
            self._real["mkdir"](path, *args, **named)
            self._note_made(os.fspath(path))

    def _unlink(self, path: Any, **named: Any) -> None:
        with self._lock:
            self._check("unlink", os.fspath(path))
            self._real["unlink"](path, **named)
            self._note_removed(os.fspath(path))

    def _rmdir(self, path: Any, **named: Any) -> None:
        with self._lock:
            self._check("rmdir", os.fspath(path))
            self._real["rmdir"](path, **named)
            self._note_removed(os.fspath(path))

    def _fsync(self, fd: int) -> None:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            self._real["fsync"](fd)
            return
        name = os.readlink(f"/proc/self/fd/{fd}")
        with self._lock:
            covered = {path for path in self._fresh if os.path.dirname(path) == name}
            self._fresh -= covered
            try:
                self._check("fsync", name)
            except OSError:
                self._lost |= covered
                raise

    def _note_made(self, path: str) -> None:
        self._lost.discard(path)
        self._fresh.add(path)

    def _note_removed(self, path: str) -> None:
        self._lost.discard(path)
        self._fresh.discard(path)
