"""The directories of jars and data, and the error that all backends raise."""

import os
from collections.abc import Callable
from pathlib import Path

from opentalos.model.errors import TalosError

Say = Callable[[str], None]


class BackendError(TalosError):
    """A backend could not be fetched, started or stopped; the text names the remedy."""


def data_home() -> Path:
    """The XDG data directory of the user."""
    given = os.environ.get("XDG_DATA_HOME")
    return Path(given) if given else Path.home() / ".local" / "share"


def default_home() -> Path:
    """The default directory of data, configuration, logs and pid files of backends."""
    return data_home() / "opentalos" / "backends"


def jars_folder(kind: str) -> Path:
    """The directory of the jars of a backend, or of the clients in a server process."""
    return data_home() / "opentalos" / "jars" / kind


def tail_of(path: Path, lines: int = 20) -> str:
    """The last lines of a log."""
    if not path.exists():
        return ""
    return "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
