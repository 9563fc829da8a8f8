"""Copies the journals of a server that may be writing them.

A file of a journal is used only after the one before says so, and deleted only after the newest
says that it is needed no more. So the newest is copied first; and again, if it was not the newest
any more, or an older one was gone. What is trimmed is durable in segments, which are copied later.
"""

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
    return {
        path: copied
        for name in names
        for path, copied in _copy_journal(files, target, name).items()
    }


def _copy_journal(files: Path, target: Path, name: str) -> dict[str, Copied]:
    whole: dict[str, Copied] = {}  # files that are written no more
    for _ in range(ATTEMPTS_MAX):
        numbers = _numbers(files, name)  # the newest, copied after this, says why others are gone
        if not numbers:
            for path in whole:
                (target / path).unlink()
            ended = _copy(files, target, ended_path(name))
            return {ended_path(name): ended} if ended else {}
        newest = file_path(name, numbers[0])
        copied = _copy(files, target, newest)
        if copied is None or _numbers(files, name)[:1] != numbers[:1]:
            (target / newest).unlink(missing_ok=True)  # it may lack its end
            continue
        older = [file_path(name, number) for number in numbers[1:]]
        for path in older:
            if path == older[0]:  # at the last attempt it may have lacked its end
                whole.pop(path, None)
            if path not in whole and (made := _copy(files, target, path)):
                whole[path] = made
        if all(path in whole for path in older):
            return {**whole, newest: copied}
    raise StoreUnavailable(f"journal {name} continues faster than it can be copied; try again")


def _numbers(files: Path, name: str) -> list[int]:
    """Of the files, newest first; empty: the journal has ended, or was never used."""
    if (files / ended_path(name)).exists():
        return []
    found = (number_of(path.name) for path in (files / JOURNALS / name).glob("*"))
    return sorted((number for number in found if number is not None), reverse=True)


def _copy(files: Path, target: Path, path: str) -> Copied | None:
    """Copy one file; None: it is gone."""
    length = fence_length(files / path, path)
    try:
        return copy_file(files / path, target / path, length)
    except FileNotFoundError:
        return None
