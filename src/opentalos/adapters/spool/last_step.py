"""The last interval that a former process measured, so that the next one skips it; blocking."""

from pathlib import Path

_NAME = "last-step"


def read_last_step(folder: Path) -> int:
    """End of that interval, Unix time in ms; 0: unknown."""
    try:
        return int((folder / _NAME).read_text())
    except (OSError, ValueError):
        return 0


def write_last_step(folder: Path, at_ms: int) -> None:
    """Store it. Raises: OSError."""
    (folder / _NAME).write_text(str(at_ms))
