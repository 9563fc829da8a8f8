"""The data directory: its lock, format version, keys, ``server.json`` and ``run.json``.

One server at a time uses it; the local file store relies on that (promise I2).
"""

import base64
import fcntl
import json
import logging
import os
from pathlib import Path
from typing import Any

from opentalos.adapters.durable_files import make_directories, replace_file, sync_ancestors
from opentalos.adapters.private_files import DIR_MODE, FILE_MODE, make_private
from opentalos.model.errors import ConfigError, NewerFormat
from opentalos.ports.clock import Clock
from opentalos.wire.record_crc import checked, with_crc

FORMAT_VERSION = 1
SERVER_KEY_FILE = "server.key"
ROOT_KEY_FILE = "root.key"
SERVER_KEY_BYTES = 32  # AES-256
SEALED_FILE = "principals.sealed"
RUN_FILE = "run.json"
_SECRET_BYTES = 30  # 40 characters of base64
_KEY_ID_BYTES = 8
_SERVER_ID_BYTES = 6
# What a server keeps in its data directory; other files there are not ours to change.
_OURS = (
    "audit",
    "format.json",
    "lock",
    "log",
    "measuring",
    "principals.sealed",
    "root.key",
    "run.json",
    "server.json",
    "server.key",
)

_log = logging.getLogger("opentalos.server")


class DataDirectory:
    """Locked from construction to ``close``; the kernel releases the lock if the process dies.

    Raises: ConfigError: another server holds the lock (the text names its pid), or the directory
    cannot be used; NewerFormat.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._clock = clock
        try:
            make_directories(path.absolute(), DIR_MODE)
            self._make_private()
            if not (path / "format.json").exists():  # made by a start that then lost its power?
                sync_ancestors(path.absolute())
            self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigError(f"cannot use data directory {path}: {error.strerror}") from error
        try:
            self._take_lock()
            self.server = self._check_format()
        except BaseException:
            os.close(self._lock)
            os.close(self._directory)
            raise

    def _make_private(self) -> None:
        """Raises: ConfigError: the directory belongs to another user, or is shared; OSError."""
        paths = (self.path.resolve(), *(self.path / name for name in _OURS))
        corrected = [str(path) for path in paths if make_private(path)]
        if corrected:
            _log.warning(
                "other users of this machine could use files of the server; corrected %s",
                " ".join(corrected),
            )

    def _take_lock(self) -> None:
        """Lock the file, which has our pid, and the directory, whose lock cannot be removed.

        ``LocalFileStore`` with ``exclusive`` relies on this lock, also if an operator takes the
        file ``lock`` for a leftover and deletes it.
        """
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.flock(self._directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            pid = os.pread(self._lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise ConfigError(
                f"cannot lock data directory {self.path}: the server with pid {pid} uses it; stop "
                "it first"
            ) from error
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def _check_format(self) -> str:
        path = self.path / "format.json"
        if not path.exists():
            if (self.path / "meta.sqlite").exists():
                raise ConfigError(
                    f"{path} is missing, but the directory has data; restore it from a backup"
                )
            server = f"server-{self._clock.token(_SERVER_ID_BYTES).hex()}"
            record = {"format": "opentalos-data", "version": FORMAT_VERSION, "server": server}
            write_atomically(path, _encode(record))
            return server
        try:
            record = json.loads(path.read_bytes())
            version, server = int(record["version"]), str(record["server"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"cannot read {path}: {error}") from error
        if version > FORMAT_VERSION:
            raise NewerFormat(
                f"data directory {self.path} has format {version}, but this version supports "
                "formats "
                f"up to {FORMAT_VERSION}; use a newer version of talos"
            )
        return server

    def server_key(self) -> bytes:
        """The key that encrypts secrets at rest; created at the first start."""
        path = self.key_path
        if not path.exists():
            if (self.path / "meta.sqlite").exists():
                raise ConfigError(
                    f"{path} is missing, so the stored secrets cannot be decrypted; restore it "
                    "from a key file (talos backup --with-key)"
                )
            write_atomically(path, base64.b64encode(self._clock.token(SERVER_KEY_BYTES)) + b"\n")
        return read_server_key(path)

    @property
    def key_path(self) -> Path:
        """The file of ``server_key``."""
        return self.path / SERVER_KEY_FILE

    def root_key(self) -> tuple[str, str]:
        """Key id and secret of the first administrator, from its file or newly created."""
        path = self.path / ROOT_KEY_FILE
        if path.exists():
            return read_root_key(path)
        key_id = f"ROOT{self._clock.token(_KEY_ID_BYTES).hex().upper()}"
        secret = base64.urlsafe_b64encode(self._clock.token(_SECRET_BYTES)).decode()
        write_atomically(path, f"{key_id}:{secret}\n".encode())
        return key_id, secret

    @property
    def sealed(self) -> bool:
        """Whether all records of principals were sealed; see SealMemory."""
        return (self.path / SEALED_FILE).exists()

    def note_sealed(self) -> None:
        """Remember ``sealed`` over restarts. Raises: ConfigError."""
        write_atomically(self.path / SEALED_FILE, b"records of principals have MACs\n")

    def write_server_json(self, record: dict[str, Any]) -> None:
        """Publish how local programs reach this server."""
        write_atomically(self.path / "server.json", _encode(record))

    def close(self) -> None:
        """Remove ``server.json`` and release the lock; idempotent."""
        if self._lock < 0:
            return
        (self.path / "server.json").unlink(missing_ok=True)
        os.close(self._lock)
        os.close(self._directory)
        self._lock = -1


def read_server_key(path: Path) -> bytes:
    """The base64 key in a file. Raises: ConfigError."""
    try:
        key = base64.b64decode(path.read_bytes(), validate=False)
    except OSError as error:
        raise ConfigError(f"cannot read key file {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"cannot read key file {path}: not base64: {error}") from error
    if len(key) != SERVER_KEY_BYTES:
        raise ConfigError(f"key file {path} has {len(key)} bytes; it must have {SERVER_KEY_BYTES}")
    return key


def read_root_key(path: Path) -> tuple[str, str]:
    """Key id and secret of a ``root.key`` file. Raises: ConfigError."""
    try:
        text = path.read_text("utf-8").strip()
    except OSError as error:
        raise ConfigError(f"cannot read key file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read key file {path}: not UTF-8") from error
    return parse_key(text, str(path))


def parse_key(text: str, what: str) -> tuple[str, str]:
    """Split ``ID:SECRET``. Raises: ConfigError, without the secret in its text."""
    key_id, colon, secret = text.partition(":")
    if not colon or not key_id or not secret or "#" in key_id or not text.isprintable():
        raise ConfigError(f"{what} must be ID:SECRET, where the ID has neither # nor :")
    return key_id, secret


def read_run(data: Path) -> int | None:
    """The number in ``run.json``; None: there is no such file. Raises: ConfigError."""
    path = data / RUN_FILE
    try:
        return int(json.loads(checked(path.read_bytes()))["run"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"cannot read {path}: {error}; delete it if the databases beside it are of one time"
        ) from error


def write_run(data: Path, number: int) -> None:
    """Store the number of a run. Raises: ConfigError."""
    write_atomically(data / RUN_FILE, with_crc(json.dumps({"run": number}).encode()))


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file, private to this user: readers see the old or the new content, also after a
    power loss.

    Raises: ConfigError: the old content is still there.
    """
    try:
        replace_file(path, content, FILE_MODE)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}; see to its disk") from error


def _encode(record: dict[str, Any]) -> bytes:
    return json.dumps(record, indent=2).encode() + b"\n"
