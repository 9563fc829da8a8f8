"""The directories below a store's root, and new files in them, with entries that are durable.

A failed sync of a directory leaves its new entries in doubt for good (durable_files.py), and those
are removed and made once more. A directory in doubt contains only files in doubt, which are empty
and which nobody got: no file is made in a directory before its own entry is durable.
"""

import contextlib
import os
import threading
from pathlib import Path
from weakref import WeakValueDictionary

from opentalos.adapters.durable_files import NewEntry, make_directories
from opentalos.adapters.local.disk import delete_file
from opentalos.adapters.local.fence_watch import FenceWatch
from opentalos.adapters.private_files import DIR_MODE, FILE_MODE
from opentalos.adapters.store_path import FENCE_SUFFIX
from opentalos.model.errors import AlreadyExists, OutcomeUnknown

CREATE_ATTEMPTS_MAX = 8  # each lost to a delete that removed the empty directory
_CREATE_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class _Turn:
    """Making and removing one directory follow each other."""

    __slots__ = ("__weakref__", "lock")

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Directories:
    """Those of one store; used by its I/O threads."""

    def __init__(self, root: Path, watch: FenceWatch | None) -> None:
        self._root, self._watch = root, watch
        self._durable: set[str] = set()
        # What this process made and no sync has covered yet, with what the sync has to prove.
        # Whatever else exists may be of a process that died before its sync, which covers it.
        self._made: dict[str, NewEntry] = {}
        self._doubtful: dict[str, None] = {}  # files that could not be removed at once
        self._turns: WeakValueDictionary[str, _Turn] = WeakValueDictionary()
        self._turns_lock = threading.Lock()

    def create_file(self, full: Path, path: str) -> int:
        """A new file, its entry durable; the descriptor.

        Raises: AlreadyExists; OSError: not done; OutcomeUnknown: an empty file may be there.
        """
        if str(full) in self._doubtful:
            self.delete_file(full)
        for attempt in range(CREATE_ATTEMPTS_MAX):
            if os.path.lexists(f"{full}{FENCE_SUFFIX}"):
                raise AlreadyExists(f"{path} (a fence of that name)")
            try:
                self.make(full.parent)
                with NewEntry(full.parent) as entry:
                    fd = os.open(full.name, _CREATE_FLAGS, FILE_MODE, dir_fd=entry.fd)
                    self._make_durable(full, path, fd, entry)
                    return fd
            except FileExistsError as error:
                raise AlreadyExists(path) from error
            except FileNotFoundError:  # a delete has just removed the empty directory
                self._durable.clear()
                if attempt == CREATE_ATTEMPTS_MAX - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _make_durable(self, full: Path, path: str, fd: int, entry: NewEntry) -> None:
        """The entry of a new file. Raises: OutcomeUnknown: an empty file may be there."""
        try:
            entry.sync()
            for parent in full.parents:  # if removed and recreated; no longer, with a file in it
                if parent == self._root:
                    break
                self.make(parent)
        except OSError as error:
            self._withdraw(full, fd)
            raise OutcomeUnknown(
                f"{path}: created, but its directory entry may not be durable: {error}"
            ) from error

    def make(self, path: Path) -> None:
        """Make ``path`` and its parents below the root, their entries durable."""
        name = str(path)
        if name in self._durable:
            return
        if path == self._root:
            make_directories(path.parent)
        else:
            self.make(path.parent)
        turn = self._turn(name)
        with turn.lock:
            if name in self._durable:
                return
            entry = self._entry_made(path)
            try:
                entry.sync()
            except OSError:
                with contextlib.suppress(OSError):
                    os.rmdir(path)
                raise
            self._made.pop(name, None)
            self._durable.add(name)

    def delete_file(self, full: Path) -> None:
        """Fence the file and remove it, and directories that became empty with it, so that deleted
        topics leave nothing."""
        deleted = delete_file(full, self._watch)
        self._doubtful.pop(str(full), None)
        if not deleted:
            return
        for parent in full.parents:
            if parent == self._root or not self._remove(parent):
                return

    def _entry_made(self, path: Path) -> NewEntry:
        """The directory exists; what makes its entry durable."""
        name = str(path)
        former = self._made.get(name)
        if former is not None and former.lost and path.is_dir():
            for file in list(self._doubtful):
                if os.path.dirname(file) == name:
                    delete_file(Path(file), self._watch)
                    self._doubtful.pop(file, None)
            os.rmdir(path)
        entry = NewEntry(path.parent)
        try:
            os.mkdir(path, DIR_MODE)
        except FileExistsError:
            return self._made.get(name, entry)
        self._made[name] = entry
        return entry

    def _remove(self, path: Path) -> bool:
        """Remove the directory if it is empty; no other making of it is under way."""
        name = str(path)
        turn = self._turn(name)
        with turn.lock:
            try:
                with os.scandir(path) as entries:
                    if any(entries):
                        return False
                self._durable.discard(name)
                os.rmdir(path)
                self._made.pop(name, None)
            except OSError:  # a create or another delete was quicker
                return False
            return True

    def _withdraw(self, full: Path, fd: int) -> None:
        """Remove a new file whose entry is in doubt."""
        try:
            if os.fstat(fd).st_nlink:  # else someone deleted it, and another may have that name
                os.unlink(full)
        except FileNotFoundError:
            return
        except OSError:
            self._doubtful[str(full)] = None
        finally:
            with contextlib.suppress(OSError):
                os.close(fd)

    def _turn(self, name: str) -> _Turn:
        with self._turns_lock:
            return self._turns.setdefault(name, _Turn())
