"""Files and directories that survive a power loss once a call has returned; blocking.

A directory's entry is durable only after a sync of its parent, up to the first directory that was
there before. A sync that failed is never made up for: the kernel may take what it had to store for
stored, and the next sync succeeds without it. So whoever makes an entry takes a ``NewEntry`` first
and, if its sync raises, makes the entry once more, by whatever means, or does without it.
"""

import contextlib
import errno
import fcntl
import os
import threading
from pathlib import Path
from weakref import WeakValueDictionary

_F_FULLFSYNC = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync stops at the drive's cache
_DIR_MODE = 0o777  # less the umask, as ``Path.mkdir``
# Directories that we may pass through but not read, and file systems without a sync of directories.
_NOT_SYNCED = (errno.EACCES, errno.EPERM, errno.EINVAL, errno.EROFS, errno.ENOTSUP)


def sync_descriptor(fd: int) -> None:
    """Make a file, or the entries of a directory, durable: past the drive's cache on macOS too."""
    if _F_FULLFSYNC is None:
        os.fsync(fd)
    else:
        fcntl.fcntl(fd, _F_FULLFSYNC)


class _Syncs:
    """Those of one directory by this process; they follow each other, so that a failed one is
    counted before a later one succeeds."""

    __slots__ = ("__weakref__", "failures", "lock")

    def __init__(self) -> None:
        self.failures = 0
        self.lock = threading.Lock()


# Failures matter only to entries that are not durable yet, so nothing else keeps them.
_syncs: WeakValueDictionary[str, _Syncs] = WeakValueDictionary()
_syncs_lock = threading.Lock()


class NewEntry:
    """Take it before an entry of ``directory`` is made; it makes that entry durable.

    Also another thread's sync that fails in between may cost the entry, and nobody would say so.
    As a context manager it has the directory open, so that the sync does not lack a descriptor
    once the entry is there; who makes the entry with ``fd`` makes it in that very directory.
    """

    __slots__ = ("_directory", "_failures", "_syncs", "fd")

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        with _syncs_lock:
            self._syncs = _syncs.setdefault(self._directory, _Syncs())
        self._failures = self._syncs.failures
        self.fd = -1

    def __enter__(self) -> "NewEntry":
        """Raises: OSError: the directory cannot be opened."""
        self.fd = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        fd, self.fd = self.fd, -1
        os.close(fd)

    @property
    def lost(self) -> bool:
        """Whether a sync failed since: no later one proves anything about the entry."""
        return self._syncs.failures != self._failures

    def sync(self) -> None:
        """Raises: OSError: the entry may be lost with the power; if ``lost``, for good."""
        with self._syncs.lock:
            if self.lost:
                reason = "an earlier sync of the directory failed"
                raise OSError(errno.EIO, reason, self._directory)
            if self.fd >= 0:
                self._sync()
                return
            with self:
                self._sync()

    def _sync(self) -> None:
        try:
            sync_descriptor(self.fd)
        except OSError:
            self._syncs.failures += 1
            raise


def sync_directory(path: Path) -> None:
    """Make the directory's entries durable, unless an earlier sync of them failed."""
    NewEntry(path).sync()


def make_directories(path: Path, mode: int = _DIR_MODE) -> None:
    """Make an absolute path with its parents, the entry of each made one durable."""
    if path.is_dir():
        return
    if path.parent != path:
        make_directories(path.parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, mode)
    try:
        _sync_entry(path)
    except OSError:
        with contextlib.suppress(OSError):  # so that the next call makes it once more
            os.rmdir(path)
        raise


def sync_ancestors(path: Path) -> None:
    """Make the entries of an absolute path and its parents durable: a process that made them may
    have died before its sync."""
    for made in (path, *path.parents):
        _sync_entry(made)


def replace_file(path: Path, content: bytes, mode: int) -> None:
    """Replace a file: readers see the old or the new content, also after a power loss."""
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        write_all(fd, content)
        sync_descriptor(fd)
    finally:
        os.close(fd)
    entry, known = NewEntry(path.parent), path.exists()
    temporary.replace(path)
    try:
        entry.sync()
    except OSError:
        if not known:  # nobody shall rely on it
            with contextlib.suppress(OSError):
                path.unlink()
        raise


def write_all(fd: int, content: bytes) -> None:
    """Write all of ``content``: one call may take less, on a disk that is nearly full."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


def _sync_entry(path: Path) -> None:
    try:
        sync_directory(path.parent)
    except OSError as error:
        if error.errno not in _NOT_SYNCED:
            raise
        os.sync()
