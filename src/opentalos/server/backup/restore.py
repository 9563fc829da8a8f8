"""Restores a data directory from a backup: complete and verified, or not at all."""

from collections.abc import Callable
from pathlib import Path

from opentalos.model.errors import CorruptLog
from opentalos.server.backup.folder import Contents, copy_file, new_folder, read_contents


def restore_backup(backup: Path, data: Path, progress: Callable[[int, int], None]) -> Contents:
    """Restore the data directory ``data``; it appears once every checksum matches.

    Raises: ConfigError: not a backup, or the directory is not empty; CorruptLog: a file of the
    backup is missing or damaged; NewerFormat; StoreUnavailable, StorageFull. Not done.
    """
    contents = read_contents(backup)
    done, total = 0, sum(copied.bytes for copied in contents.values())
    with new_folder(data.absolute()) as folder:
        for path, wanted in contents.items():
            try:
                found = copy_file(backup / path, folder / path)
            except FileNotFoundError:
                raise CorruptLog(
                    f"cannot restore {backup}: {path} is missing; use another backup"
                ) from None
            if found != wanted:
                raise CorruptLog(
                    f"cannot restore {backup}: checksum mismatch of {path}; use another backup"
                )
            done += found.bytes
            progress(done, total)
    return contents
