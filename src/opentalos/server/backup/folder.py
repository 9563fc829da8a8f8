"""The folder of a backup: the files of a data directory, and a list with their checksums.

Shape: ``backup.json``: {"format": "opentalos-backup", "version": 1, "files": {PATH: {"bytes",
    "sha256"}}}; PATH is relative to the folder. The list is written last.
"""

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import IO, Final, NamedTuple

from opentalos.adapters.durable_files import make_directories, sync_descriptor, sync_directory
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
FORMAT_VERSION: Final = 1
LIST_FILE: Final = "backup.json"
_CHUNK_BYTES: Final = 1 << 20
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_MODES: Final = 0o777


class Copied(NamedTuple):
    """A file of a backup."""

    bytes: int
    sha256: str


Contents = Mapping[str, Copied]  # by path


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
    """Copy a file durably; it may grow meanwhile. At most ``length`` bytes.

    Raises: FileNotFoundError: the source; OSError.
    """
    with source.open("rb") as reader:
        mode = os.fstat(reader.fileno()).st_mode & _MODES
        left = os.fstat(reader.fileno()).st_size if length is None else length
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as writer:
            copied = _digest(reader, left, writer)
            writer.flush()
            sync_descriptor(writer.fileno())
    return copied


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


def write_contents(folder: Path, contents: Contents) -> Contents:
    """Write the list, which makes the folder a backup."""
    files = {path: copied._asdict() for path, copied in sorted(contents.items())}
    record = {"format": FORMAT, "version": FORMAT_VERSION, "files": files}
    write_atomically(folder / LIST_FILE, json.dumps(record, indent=1).encode() + b"\n")
    return contents


def read_contents(folder: Path) -> Contents:
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
        files = {name: Copied(**entry) for name, entry in record["files"].items()}
    except FileNotFoundError:
        raise ConfigError(f"{folder} is not a backup: it has no {LIST_FILE}") from None
    except OSError as error:
        raise StoreUnavailable(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptLog(
            f"cannot read {path}: not the list of a backup; use another backup"
        ) from error
    for name in files:
        parts = PurePosixPath(name).parts
        if not parts or name.startswith("/") or ".." in parts:
            raise CorruptLog(f"{path} names {shown_value(name)}, which is outside the backup")
    return files
