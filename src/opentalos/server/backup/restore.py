"""Restores a data directory from a backup: complete and verified, or not at all."""

import hmac
from collections.abc import Callable
from pathlib import Path

from opentalos.model.errors import ConfigError, CorruptLog
from opentalos.server.backup.folder import Contents, copy_file, new_folder, read_contents
from opentalos.server.backup.keys import BackupKeys, put_keys, read_key_file


def restore_backup(
    backup: Path, data: Path, progress: Callable[[int, int], None], key_file: Path | None = None
) -> Contents:
    """Restore the data directory ``data``; it appears once every checksum matches.

    Args: key_file: of the server, see keys.py; a backup of format 1 has the key.

    Raises: ConfigError: not a backup, not its key, or the directory is not empty; CorruptLog: a
    file of the backup is missing or damaged; NewerFormat; StoreUnavailable, StorageFull. Not done.
    """
    contents, key_check = read_contents(backup)
    keys = _checked_keys(backup, key_file, key_check) if key_check else None
    done, total = 0, sum(copied.bytes for copied in contents.values())
    with new_folder(data.absolute()) as folder:
        for path, wanted in contents.items():
            try:
                found = copy_file(backup / path, folder / path, wanted.bytes + 1)
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
        if keys is not None:
            put_keys(folder, keys)
    return contents


def _checked_keys(backup: Path, key_file: Path | None, key_check: str) -> BackupKeys:
    if key_file is None:
        raise ConfigError(
            f"cannot restore {backup}: it does not contain the server's key; pass --key FILE with "
            "what talos backup --with-key wrote, or with server.key of the data directory"
        )
    keys = read_key_file(key_file)
    if not hmac.compare_digest(keys.check.encode(), key_check.encode()):
        raise ConfigError(
            f"cannot restore {backup}: {key_file} is the key of another server; pass the key file "
            "that belongs to this backup"
        )
    return keys
