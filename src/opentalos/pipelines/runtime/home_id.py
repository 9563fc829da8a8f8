"""What a home remembers of leases: its own id, and the last lease of each pipeline.

All hosts that use a home find the same id in it, so they meet at the same lease. The note of a
pipeline says who had its lease last, on which host, and under which epoch.
"""

import json
import os
import secrets
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import psutil

from opentalos.model.errors import ConfigError
from opentalos.pipelines.lake.durable_files import sync_folder, write_json

_FILE: Final = "home.id"
_ID_BYTES: Final = 8
_ID_CHARS: Final = frozenset("0123456789abcdef")


def home_id(home: Path) -> str:
    """The id of a home, which the first one who asks makes.

    Raises: ConfigError: its file is damaged; OSError.
    """
    path = home / _FILE
    if not path.exists():
        home.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{_FILE}.{secrets.token_hex(_ID_BYTES)}")
        with fresh.open("x") as file:
            file.write(secrets.token_hex(_ID_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):  # another host was first
            os.link(fresh, path)  # unlike a rename it never replaces; atomic also on NFS
        fresh.unlink()
        sync_folder(home)
    found = path.read_text().strip()
    if len(found) != 2 * _ID_BYTES or not set(found) <= _ID_CHARS:
        raise ConfigError(
            f"{path} must contain {2 * _ID_BYTES} hexadecimal digits; delete it once no pipeline "
            "runs on this home"
        )
    return found


def lease_name(pipeline: str, home: Path) -> str:
    """The lease of a pipeline that runs on a home. Raises: as ``home_id``."""
    return f"{pipeline}-{home_id(home)}"


@dataclass(frozen=True, slots=True)
class LeaseNote:
    """The last lease of a pipeline that a run had."""

    epoch: int
    host: str
    pid: int
    began: float  # creation time of that process

    @classmethod
    def of_this_process(cls, epoch: int) -> "LeaseNote":
        """The note of this process's lease."""
        return cls(epoch, socket.gethostname(), os.getpid(), psutil.Process().create_time())

    @classmethod
    def read(cls, home: Path, name: str) -> "LeaseNote | None":
        """The note of a pipeline; None: there is none, or it is damaged."""
        try:
            return cls(**json.loads(_note_file(home, name).read_text()))
        except (OSError, TypeError, ValueError):
            return None

    def write(self, home: Path, name: str) -> None:
        """Replace the note. Raises: OSError."""
        path = _note_file(home, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, asdict(self))

    @property
    def ended(self) -> bool:
        """Whether its run was on this host and its process is gone."""
        if self.host != socket.gethostname():
            return False
        try:
            process = psutil.Process(self.pid)
            # A killed process whose parent has not asked for its status runs no more, either.
            ended = process.status() == psutil.STATUS_ZOMBIE
            return ended or process.create_time() != self.began
        except psutil.NoSuchProcess:
            return True


def _note_file(home: Path, name: str) -> Path:
    return home / "checkpoints" / f"{name}.lease.json"
