"""The keys of a backup: what opens the secrets in it is stored apart from it.

Shape: a key file: the server's key in base64; then, if the server has a ``root.key``, a line with
    its ID:SECRET. The file ``server.key`` of a data directory is therefore a key file too.
"""

import base64
import hashlib
import hmac
from pathlib import Path
from typing import Final, NamedTuple

from opentalos.model.errors import ConfigError
from opentalos.server.data_directory import (
    ROOT_KEY_FILE,
    SERVER_KEY_BYTES,
    SERVER_KEY_FILE,
    read_server_key,
    write_atomically,
)

_PURPOSE: Final = b"opentalos check of a backup's key 1"


class BackupKeys(NamedTuple):
    """The server's key, and its ``root.key`` as it is, empty without one."""

    server_key: bytes
    root_key: bytes

    @property
    def check(self) -> str:
        """Says whether a key is that of a backup, and nothing else about it."""
        return hmac.new(self.server_key, _PURPOSE, hashlib.sha256).hexdigest()


def keys_of(data: Path) -> BackupKeys:
    """The keys of a data directory. Raises: ConfigError."""
    root = data / ROOT_KEY_FILE
    return BackupKeys(
        read_server_key(data / SERVER_KEY_FILE), root.read_bytes() if root.exists() else b""
    )


def write_key_file(path: Path, keys: BackupKeys) -> None:
    """Write a key file for the owner only. Raises: ConfigError: it exists, or cannot be written."""
    if path.exists() or path.is_symlink():
        raise ConfigError(f"{path} already exists; name another file for the key")
    write_atomically(path, _server_line(keys) + keys.root_key)


def read_key_file(path: Path) -> BackupKeys:
    """Raises: ConfigError: it is not a key file."""
    try:
        line, _, root = path.read_bytes().partition(b"\n")
        key = base64.b64decode(line, validate=True)
    except OSError as error:
        raise ConfigError(f"cannot read key file {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"cannot read key file {path}: not base64: {error}") from error
    if len(key) != SERVER_KEY_BYTES:
        raise ConfigError(f"key file {path} has {len(key)} bytes; it must have {SERVER_KEY_BYTES}")
    return BackupKeys(key, root)


def put_keys(folder: Path, keys: BackupKeys) -> None:
    """Write the keys to a data directory."""
    write_atomically(folder / SERVER_KEY_FILE, _server_line(keys))
    if keys.root_key:
        write_atomically(folder / ROOT_KEY_FILE, keys.root_key)


def _server_line(keys: BackupKeys) -> bytes:
    return base64.b64encode(keys.server_key) + b"\n"
