"""A data directory from a backup: whole and verified, or not there at all."""

from collections.abc import Callable
from pathlib import Path

from opentalos.model.errors import CorruptLog
from opentalos.server.backup.folder import Contents, copy_file, new_folder, read_contents


def restore_backup(backup: Path, data: Path, progress: Callable[[int, int], None]) -> Contents:
    """Make the data directory ``data`` from a backup; it appears when every checksum is right.

    Raises: ConfigError: no backup, or the directory has something in it; CorruptLog: a file of
    the backup is missing or damaged; NewerFormat; StoreUnavailable, StorageFull. Not done.
    """
    contents = read_contents(backup)
    done, total = 0, sum(one.bytes for one in contents.values())
    with new_folder(data.absolute()) as folder:
        for path, wanted in contents.items():
            try:
                found = copy_file(backup / path, folder / path)
            except FileNotFoundError:
                raise CorruptLog(f"{backup / path} is missing from the backup") from None
            if found != wanted:
                raise CorruptLog(f"{backup / path} is damaged: its checksum is another one")
            done += found.bytes
            progress(done, total)
    return contents
