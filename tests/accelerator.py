"""The accelerator in tests: where commits can run here, and a disk that Python acts below it.

Tests of commits run on Python's threads and on native ones, if those are built: ``make test`` and
``make check`` build them where a C compiler is. Otherwise the cases on native threads do not exist,
and a line at the end of each test run says so.
"""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from opentalos.adapters.local import disk
from opentalos.adapters.local.native_crew import AUTO, OFF, REQUIRED, load_accelerator

NATIVE_SOURCES = Path(__file__).parents[1] / "native"
SOURCES = (NATIVE_SOURCES / "commits.c", NATIVE_SOURCES / "commit_pool.h")


def _current() -> tuple[ModuleType | None, str]:
    """The accelerator, and else why there is none to test."""
    module = load_accelerator(AUTO)
    if module is None:
        return None, "it is not built"
    built = Path(str(module.__file__)).stat().st_mtime
    newer = [path.name for path in SOURCES if path.stat().st_mtime > built]
    if newer:
        return None, f"it is older than native/{newer[0]}"
    return module, ""


NATIVE, WHY_NOT = _current()
KINDS = (OFF,) if NATIVE is None else (OFF, REQUIRED)  # values of the setting ``accelerator``


class _Part(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("start", ctypes.c_void_p), ("bytes", ctypes.c_size_t))


_WRITE = ctypes.CFUNCTYPE(
    ctypes.c_ssize_t,
    ctypes.c_int,
    ctypes.POINTER(_Part),
    ctypes.c_int,
    ctypes.c_int64,
    ctypes.c_int,
    use_errno=True,
)
_SYNC = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, use_errno=True)
Before = Callable[[int, Sequence[bytes], int], None]  # descriptor, chunks, position
_kept: list[Any] = []  # functions that a hanging thread may still return into


@contextmanager
def disk_of_python(before: Before = lambda fd, chunks, position: None) -> Iterator[None]:
    """Native threads write by ``os.pwritev`` and sync by ``disk.sync_data``, as tests change them.

    ``before``: called on the thread ahead of each write. An OSError becomes its errno.
    """
    assert NATIVE is not None

    def write(fd: int, parts: Any, count: int, position: int, durable: int) -> int:
        chunks = [ctypes.string_at(parts[n].start, parts[n].bytes) for n in range(count)]
        if durable and not disk._RWF_DSYNC:
            ctypes.set_errno(errno.EOPNOTSUPP)
            return -1
        try:
            before(fd, chunks, position)
            return os.pwritev(fd, chunks, position, disk._RWF_DSYNC if durable else 0)
        except OSError as error:
            ctypes.set_errno(error.errno or errno.EIO)
            return -1

    def sync(fd: int) -> int:
        try:
            disk.sync_data(fd)
        except OSError as error:
            ctypes.set_errno(error.errno or errno.EIO)
            return -1
        return 0

    functions = (_WRITE(write), _SYNC(sync))
    _kept.extend(functions)
    addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
    NATIVE.replace_disk(*addresses)
    try:
        yield
    finally:
        NATIVE.replace_disk(0, 0)
