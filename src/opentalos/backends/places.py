"""Where backends keep their jars and their data, and the error that all of them raise."""

import os
from collections.abc import Callable
from pathlib import Path

from opentalos.model.errors import TalosError

Say = Callable[[str], None]


class BackendError(TalosError):
    """A backend cannot be fetched, started or stopped; the text says what to do."""


def data_home() -> Path:
    """The user's folder for data of programs, as XDG has it."""
    given = os.environ.get("XDG_DATA_HOME")
    return Path(given) if given else Path.home() / ".local" / "share"


def default_home() -> Path:
    """Where backends keep their data, configuration, logs and pid files."""
    return data_home() / "opentalos" / "backends"


def jars_folder(kind: str) -> Path:
    """Where the jars of a backend, or of the clients in a server's process, are fetched to."""
    return data_home() / "opentalos" / "jars" / kind


def tail_of(path: Path, lines: int = 20) -> str:
    """The last lines of a log."""
    if not path.exists():
        return ""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
