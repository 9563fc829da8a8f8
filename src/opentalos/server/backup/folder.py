"""The folder of a backup: the files of a data directory, and a list with their checksums.

Shape: ``backup.json``: {"format": "opentalos-backup", "version": 2, "key_check": HEX, "files":
    {PATH: {"bytes", "sha256"}}}; PATH is relative to the folder. The list is written last. Version
    1 has no ``key_check``: the server's key is among its files.

A backup may come from a place that others can write to, so nothing of it is believed: a path stays
inside the folder, and links and devices are not opened.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Final, NamedTuple

from opentalos.adapters.durable_files import make_directories, sync_descriptor, sync_directory
from opentalos.adapters.private_files import DIR_MODE, FILE_MODE
from opentalos.model.checks import shown_value
from opentalos.model.errors import (
    ConfigError,
    CorruptLog,
    NewerFormat,
    StorageFull,
    StoreUnavailable,
)
from opentalos.server.data_directory import write_atomically

FORMAT: Final = "opentalos-backup"
FORMAT_VERSION: Final = 2
LIST_FILE: Final = "backup.json"
_CHUNK_BYTES: Final = 1 << 20
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


class Copied(NamedTuple):
    """A file of a backup."""

    bytes: int
    sha256: str


Contents = Mapping[str, Copied]  # by path


class BackupList(NamedTuple):
    """The list of a backup. ``key_check``: see keys.py; empty: the backup has the key."""

    files: Contents
    key_check: str


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A temporary folder, private to this user, that is renamed to ``target`` at the end.

    Raises: ConfigError: the target exists and is not empty; StoreUnavailable, StorageFull: for an
    OSError, also within the block. Nothing is left behind then.
    """
    if target.is_symlink() or (target.exists() and not _is_empty_folder(target)):
        raise ConfigError(f"{target} already exists and is not empty; name another folder")
    folder = None
    try:
        make_directories(target.parent.absolute())
        folder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
        yield folder
        for parent, _, _ in os.walk(folder):
            sync_directory(Path(parent))
        folder.rename(target)
        sync_directory(target.parent)
    except OSError as error:
        full = error.errno in _FULL
        raise (StorageFull if full else StoreUnavailable)(f"{target}: {error}") from error
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def copy_file(source: Path, target: Path, length: int | None = None) -> Copied:
    """Copy a file durably, private to this user; it may grow meanwhile. At most ``length`` bytes.

    Raises: FileNotFoundError: the source; OSError, also if the source is no regular file.
    """
    with open(source, "rb", opener=_regular_opener) as reader:
        left = os.fstat(reader.fileno()).st_size if length is None else length
        _make_folders(target.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(target, flags, FILE_MODE)
        with os.fdopen(descriptor, "wb") as writer:
            copied = _digest(reader, left, writer)
            writer.flush()
            sync_descriptor(writer.fileno())
    return copied


def _make_folders(folder: Path) -> None:
    """``mkdir`` makes parents with the usual mode; these are private, too."""
    for path in (*reversed(folder.parents), folder):
        if not path.is_dir():
            path.mkdir(mode=DIR_MODE, exist_ok=True)


def _regular_opener(path: str, flags: int) -> int:
    """Open no link and no device; a pipe would block without the flag."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return descriptor


def digest_of(path: Path) -> Copied:
    """Length and checksum of a file."""
    with path.open("rb") as reader:
        return _digest(reader, os.fstat(reader.fileno()).st_size)


def _digest(reader: IO[bytes], left: int, writer: IO[bytes] | None = None) -> Copied:
    total, digest = 0, hashlib.sha256()
    while chunk := reader.read(min(_CHUNK_BYTES, left - total)):
        digest.update(chunk)
        total += len(chunk)
        if writer is not None:
            writer.write(chunk)
    return Copied(total, digest.hexdigest())


def write_contents(folder: Path, contents: Contents, key_check: str) -> Contents:
    """Write the list, which makes the folder a backup."""
    files = {path: copied._asdict() for path, copied in sorted(contents.items())}
    version = FORMAT_VERSION
    record = {"format": FORMAT, "version": version, "key_check": key_check, "files": files}
    write_atomically(folder / LIST_FILE, json.dumps(record, indent=1).encode() + b"\n")
    return contents


def read_contents(folder: Path) -> BackupList:
    """The list of a backup. Raises: ConfigError: not a backup; CorruptLog; NewerFormat."""
    path = folder / LIST_FILE
    try:
        record = json.loads(path.read_bytes())
        if record["format"] != FORMAT:
            raise ConfigError(f"{path} is not the list of a backup")
        if int(record["version"]) > FORMAT_VERSION:
            raise NewerFormat(
                f"{path} has format {record['version']}, but this version supports formats up to "
                f"{FORMAT_VERSION}; use a newer version of talos"
            )
        files = {name: _copied(entry) for name, entry in record["files"].items()}
        key_check = str(record["key_check"]) if int(record["version"]) > 1 else ""
    except FileNotFoundError:
        raise ConfigError(f"{folder} is not a backup: it has no {LIST_FILE}") from None
    except OSError as error:
        raise StoreUnavailable(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptLog(
            f"cannot read {path}: not the list of a backup; use another backup"
        ) from error
    for name in files:
        _check_name(path, folder, name)
    return BackupList(files, key_check)


def _copied(entry: Mapping[str, object]) -> Copied:
    """Raises: ValueError, KeyError, TypeError."""
    size, digest = entry["bytes"], entry["sha256"]
    if not isinstance(size, int) or size < 0 or not isinstance(digest, str):
        raise ValueError("a file has no size and checksum")
    return Copied(size, digest)


def _check_name(path: Path, folder: Path, name: str) -> None:
    """Raises: CorruptLog: the name leads out of the backup, is no path, or leads through a link."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts:
        raise CorruptLog(f"{path} names {shown_value(name)}, which is outside the backup")
    if "\0" in name or str(PurePosixPath(name)) != name:
        raise CorruptLog(f"{path} names {shown_value(name)}, which is not a valid path")
    for count in range(len(parts)):
        place = folder.joinpath(*parts[: count + 1])
        if place.is_symlink():
            raise CorruptLog(f"{place} is a link; a backup has files only; use another backup")
