"""The recorder's journal: builds the library, reads the records of a killed process."""

import atexit
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.waiting import completed

SOURCE = Path(__file__).with_name("recorder.c")
_HEADER = struct.Struct("<IBBHQQqqII")
_MAGIC = 0x31504F54


class Kind(IntEnum):
    """What a call does; the numbers are those of recorder.c."""

    CREATE = 1
    MKDIR = 2
    WRITE = 3
    TRUNCATE = 4
    ALLOCATE = 5
    SYNC = 6
    SYNC_ALL = 7
    RENAME = 8
    LINK = 9
    UNLINK = 10
    RMDIR = 11
    FORBIDDEN = 12


class Record(NamedTuple):
    """One side of a call. ``result``: of the second one, at least 0 or minus an error number."""

    kind: Kind
    ended: bool
    call: int
    inode: int
    position: int
    result: int
    synced: bool  # a write that returns when it is durable
    paths: tuple[str, ...]  # below the root
    data: bytes


@cache
def recorder_library() -> Path:
    """Build the library that is preloaded. Raises: AssertionError: it cannot be built."""
    folder = Path(tempfile.mkdtemp(prefix="opentalos-recorder-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc")
    assert compiler, "power cuts need Linux and a C compiler: install gcc, or set CC"
    library = folder / "recorder.so"
    command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SOURCE)]
    done = completed([*command, "-ldl", "-lpthread"])
    assert done.returncode == 0, f"{compiler} cannot build {SOURCE.name}:\n{done.stderr}"
    return library


def recorder_environment(
    library: Path, root: Path, journal: Path, faults: Path | None = None
) -> dict[str, str]:
    """What a process needs to be recorded; while the file ``faults`` exists, calls fail."""
    return {
        "LD_PRELOAD": str(library),
        "OPENTALOS_DISK_ROOT": str(root),
        "OPENTALOS_DISK_JOURNAL": str(journal),
        **({"OPENTALOS_DISK_FAULTS": str(faults)} if faults else {}),
    }


def read_journal(path: Path) -> Iterator[Record]:
    """All whole records, in order; the last one may be torn."""
    for record, _ in _records(path.read_bytes()):
        yield record


def follow_journal(path: Path) -> Iterator[tuple[Record, int] | None]:
    """Each record with its end in the file, without end; None when the process made no more."""
    began, left = 0, b""
    with path.open("rb") as file:
        while True:
            left += file.read()
            end = 0
            for record, end in _records(left):
                yield record, began + end
            began, left = began + end, left[end:]
            yield None


def _records(content: bytes) -> Iterator[tuple[Record, int]]:
    at = 0
    while at + _HEADER.size <= len(content):
        header = _HEADER.unpack_from(content, at)
        magic, kind, phase, path_bytes, call, inode, position, result, data_bytes, flags = header
        assert magic == _MAGIC, f"damaged journal at {at}"
        paths_at = at + _HEADER.size
        data_at = paths_at + path_bytes
        at = data_at + data_bytes
        if at > len(content):
            return
        paths = content[paths_at:data_at].decode(errors="surrogateescape").split("\0")
        record = Record(
            Kind(kind),
            phase == 1,
            call,
            inode,
            position,
            result,
            bool(flags),
            tuple(paths),
            content[data_at:at],
        )
        yield record, at
