"""Blocking disk operations that the I/O threads run: durable writes, directories, the fence."""

import contextlib
import errno
import fcntl
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from opentalos.adapters.durable_files import sync_descriptor, sync_directory, write_all
from opentalos.adapters.local.descriptors import FileIdentity
from opentalos.adapters.local.fence_format import decode_fence, encode_fence
from opentalos.adapters.local.fence_watch import FenceWatch
from opentalos.adapters.private_files import FILE_MODE
from opentalos.adapters.store_path import FENCE_SUFFIX
from opentalos.model.errors import Fenced, NotFound, RecoveryStuck, WriterDead

IOV_MAX = 1024  # buffers of one pwritev; Linux and macOS
ONE_CALL_BYTES_MAX = 64 << 10  # measured: above it, writing and then syncing is 15 to 40 % quicker
_RWF_DSYNC = getattr(os, "RWF_DSYNC", 0)  # Linux; elsewhere a sync follows the write
_HAS_FDATASYNC = sys.platform == "linux"  # elsewhere absent, or it stops at the drive's cache
_FENCE_BYTES_MAX = 128
_REWRITE_BYTES = 1 << 20  # at once
_LOCK_POLL_S = 0.005  # between two tries for a fence that another recovery holds


def sync_data(fd: int) -> None:
    """Make the file's bytes and length durable."""
    if _HAS_FDATASYNC:
        os.fdatasync(fd)
    else:
        sync_descriptor(fd)


def write_at(fd: int, chunks: Sequence[bytes | memoryview], position: int, *, synced: bool) -> int:
    """Write ``chunks`` at ``position``, durable on return if ``synced``; return the new length.

    One system call for a small group where the kernel can do both: a second one costs another
    wait for the interpreter (docs/internals/hot-path.md#rule-2).
    """
    total_bytes = sum(map(len, chunks))
    if len(chunks) > IOV_MAX:
        chunks = (b"".join(chunks),)
    flags = _RWF_DSYNC if synced and total_bytes <= ONE_CALL_BYTES_MAX else 0
    try:
        written = os.pwritev(fd, chunks, position, flags)
    except OSError as error:
        if not flags or error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
        flags = 0  # refused before anything was written: this file system lacks the flag
        written = os.pwritev(fd, chunks, position)
    if written < total_bytes:
        rest = memoryview(b"".join(chunks))
        while written < total_bytes:
            written += os.pwrite(fd, rest[written:], position + written)
        flags = 0  # the rest has no sync of its own
    if synced and not flags:
        sync_data(fd)
    return position + total_bytes


def check_not_fenced(fd: int, path: str, name: str) -> None:
    """Raises: Fenced: the file was taken over or deleted.

    Run after a write: without a fence, the write precedes it and is inside the length that recovery
    finds (promise I2). A deletion creates a fence, removes the file, then the fence, so a writer
    that misses the fence finds a link count of 0.
    """
    try:
        os.stat(f"{path}{FENCE_SUFFIX}")
    except FileNotFoundError:
        if os.fstat(fd).st_nlink:
            return
        raise deleted(name) from None
    raise taken_over(name)


def deleted(name: str) -> Fenced:
    """The file of a writer was deleted."""
    return Fenced(f"{name}: deleted")


def taken_over(name: str) -> Fenced:
    """The file of a writer has a fence."""
    return Fenced(f"{name}: another server owns the partition")


def commit_at(
    name: str, fd: int, chunks: Sequence[bytes | memoryview], length: int, synced: bool, path: str
) -> int:
    """Append to a file of ``length``, then look for a fence: the whole of a commit."""
    length = write_at(fd, chunks, length, synced=synced)
    check_not_fenced(fd, path, name)
    return length


def identity_of(fd: int) -> FileIdentity:
    """What ``open_again`` compares; no I/O."""
    status = os.fstat(fd)
    return FileIdentity(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


def open_again(path: str, name: str, former: FileIdentity) -> int:
    """Open a file for writing whose only writer closed it for a time; never make one.

    Raises: WriterDead: the path is gone or is another file now, or someone else wrote to it.
    """
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise deleted(name) from error
    if identity_of(fd) != former:
        os.close(fd)
        raise WriterDead(f"{name}: it is not the file that was written before")
    return fd


def fence_length(path: Path, name: str) -> int | None:
    """The length a completed fence stores; None: no fence, or not completed."""
    try:
        content = Path(f"{path}{FENCE_SUFFIX}").read_bytes()
    except FileNotFoundError:
        return None
    return decode_fence(content, name)


def recover_file(
    path: Path,
    name: str,
    deadline_s: float,
    watch: FenceWatch | None = None,
    failed: set[str] | None = None,
) -> int:
    """Fence the file and return its final length. ``deadline_s``: on the monotonic clock.

    ``failed``: names of files that a call failed on in this process. The kernel takes pages whose
    sync failed for written and says so at the next sync, so their bytes are written once more
    before it. A recovery that fails adds the name before another one gets its turn.

    The order matters: the fence is durable and counted before the length is read, so a commit that
    finds no fence is inside it; the bytes are durable before the length is stored.

    Raises: NotFound; RecoveryStuck: another recovery holds the fence.
    """
    fence = f"{path}{FENCE_SUFFIX}"
    while True:
        data_fd = _open_existing(path, name)
        try:
            length = fence_length(path, name)
            if length is not None:
                return length
            fence_fd = os.open(fence, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            try:
                sync_directory(path.parent)
                _lock(fence_fd, name, deadline_s)
                if os.fstat(data_fd).st_nlink:
                    if watch is not None:
                        watch.made()
                    return _fenced_length(path, name, data_fd, fence_fd, failed)
            finally:
                os.close(fence_fd)
        finally:
            os.close(data_fd)
        # Deleted meanwhile, and the fence may be newer than that. If the path exists again, the
        # fence is the new file's and is completed in the next round.
        if not os.path.lexists(path):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(fence)


def delete_file(path: Path, watch: FenceWatch | None = None) -> bool:
    """Fence the file, remove it, then the fence; False: there was neither."""
    fence = Path(f"{path}{FENCE_SUFFIX}")
    if not os.path.lexists(path) and not fence.exists():
        return False
    os.close(os.open(fence, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE))
    if watch is not None:
        watch.made()
    path.unlink(missing_ok=True)
    sync_directory(
        path.parent
    )  # if the removal were lost and the fence gone, the file would be unfenced
    fence.unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):  # an empty directory may be removed by now
        sync_directory(path.parent)
    return True


def _open_existing(path: Path, name: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(name) from error


def _rewrite(path: Path, data_fd: int) -> None:
    """Write the file's bytes over themselves, so that the next sync has to store them."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        position, length = 0, os.fstat(data_fd).st_size
        while position < length:
            count = min(_REWRITE_BYTES, length - position)
            position = write_at(fd, [os.pread(data_fd, count, position)], position, synced=False)
    finally:
        os.close(fd)


def _fenced_length(
    path: Path, name: str, data_fd: int, fence_fd: int, failed: set[str] | None
) -> int:
    """Make the file durable and store its length in the locked fence."""
    if failed is None:
        return _complete_fence(data_fd, fence_fd, name)
    try:
        if name in failed:
            _rewrite(path, data_fd)
        length = _complete_fence(data_fd, fence_fd, name)
    except OSError:
        failed.add(name)
        raise
    failed.discard(name)
    return length


def _lock(fence_fd: int, name: str, deadline_s: float) -> None:
    while True:
        try:
            fcntl.flock(fence_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if time.monotonic() >= deadline_s:
                raise RecoveryStuck(f"{name}: another recovery holds its fence") from error
        else:
            return
        time.sleep(_LOCK_POLL_S)


def _complete_fence(data_fd: int, fence_fd: int, name: str) -> int:
    """Store the length in the locked fence unless another recovery did so meanwhile."""
    stored = decode_fence(os.pread(fence_fd, _FENCE_BYTES_MAX, 0), name)
    if stored is not None:
        return stored
    length = os.fstat(data_fd).st_size
    sync_data(data_fd)
    os.ftruncate(fence_fd, 0)
    write_all(fence_fd, encode_fence(length))
    sync_descriptor(fence_fd)
    return length
