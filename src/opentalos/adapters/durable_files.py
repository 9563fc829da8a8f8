"""Files and directories that survive a power loss once a call has returned; blocking.

A directory's entry is durable only after a sync of its parent, up to the first directory that was
there before.
"""

import contextlib
import errno
import os
from pathlib import Path

_DIR_MODE = 0o777  # less the umask, as ``Path.mkdir``
# Directories that we may pass through but not read, and file systems without a sync of directories.
_NOT_SYNCED = (errno.EACCES, errno.EPERM, errno.EINVAL, errno.EROFS, errno.ENOTSUP)


def sync_directory(path: Path) -> None:
    """Make the directory's entries durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directories(path: Path, mode: int = _DIR_MODE) -> None:
    """Make an absolute path with its parents, the entry of each made one durable."""
    if path.is_dir():
        return
    if path.parent != path:
        make_directories(path.parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, mode)
    _sync_entry(path)


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
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.replace(path)
    sync_directory(path.parent)


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
