"""Copies the journals of a server that may be writing them.

A file of a journal is used only after the one before says so. So the newest is copied first, and
no copy then is of a file that the copy before does not lead to, or leads to a file without a copy.
What is trimmed meanwhile is durable in segments, which are copied later.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from opentalos.adapters.local.disk import fence_length
from opentalos.broker.admin.log_files import JOURNALS, ended_path, file_path, number_of
from opentalos.model.errors import StoreUnavailable
from opentalos.server.backup.folder import Copied, copy_file

ATTEMPTS_MAX: Final = 100  # of one journal; it continues in another file every few seconds at most


def copy_journals(files: Path, target: Path) -> dict[str, Copied]:
    """Copy every journal below the folder ``files``; what was copied, by path in ``target``.

    Raises: OSError; StoreUnavailable: a journal continues faster than it can be copied.
    """
    names = sorted(path.name for path in (files / JOURNALS).glob("*"))
    return {path: copied for name in names for path, copied in _copy_journal(files, target, name)}


def _copy_journal(files: Path, target: Path, name: str) -> Iterator[tuple[str, Copied]]:
    newest = _newest(files, name)
    for _ in range(ATTEMPTS_MAX):
        path = file_path(name, newest) if newest else ended_path(name)
        copied = _copy(files, target, path)
        found = _newest(files, name)
        if found == newest:  # nothing continues what was copied
            break
        newest = found
    else:
        raise StoreUnavailable(f"journal {name} continues faster than it can be copied; try again")
    if copied is not None:
        yield path, copied
    for number in sorted(_numbers(files, name), reverse=True):
        if number < newest and (older := _copy(files, target, file_path(name, number))):
            yield file_path(name, number), older


def _newest(files: Path, name: str) -> int:
    """The number of the newest file; 0: the journal has ended, or was never used."""
    if (files / ended_path(name)).exists():
        return 0
    return max(_numbers(files, name), default=0)


def _numbers(files: Path, name: str) -> list[int]:
    found = (number_of(path.name) for path in (files / JOURNALS / name).glob("*"))
    return [number for number in found if number is not None]


def _copy(files: Path, target: Path, path: str) -> Copied | None:
    """Copy one file; None: it is gone."""
    length = fence_length(files / path, path)
    try:
        return copy_file(files / path, target / path, length)
    except FileNotFoundError:
        return None
