"""The profile file of this user: ``talos profile`` changes it, completion and the SDK read it."""

import json
import os
import re
from pathlib import Path
from typing import Any, Final

from opentalos.model.errors import ConfigError

_SECRET_MODE: Final = 0o600
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")  # a name that needs no quotes in TOML


def profiles_path() -> Path:
    """The path of this user's profile file."""
    from opentalos.sdk.core.config import PROFILES_FILE

    return Path.home() / PROFILES_FILE


def load_profiles(path: Path) -> dict[str, Any]:
    """The parsed file; empty if it does not exist. Raises: ConfigError."""
    import tomllib  # slow to import; --help does not need it

    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot use the profile file {path}: {error}") from error
    profiles = found.get("profiles", {})
    if not isinstance(profiles, dict) or not all(
        isinstance(table, dict) for table in profiles.values()
    ):
        raise ConfigError(f"cannot use the profile file {path}: [profiles.NAME] must be tables")
    return found


def save_profiles(path: Path, document: dict[str, Any]) -> None:
    """Replace the file atomically; only its owner may read it, because it holds secrets."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _SECRET_MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(to_toml(document))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error


def to_toml(document: dict[str, Any]) -> str:
    """TOML of nested tables with strings, numbers, booleans and lists of these."""
    return "\n".join(_lines(document, ())).lstrip("\n") + "\n"


def _lines(table: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    lines = [
        f"{_name(name)} = {_value(value)}"
        for name, value in table.items()
        if not isinstance(value, dict)
    ]
    if names and (lines or not table):
        lines = ["", f"[{'.'.join(map(_name, names))}]", *lines]
    for name, value in table.items():
        if isinstance(value, dict):
            lines += _lines(value, (*names, name))
    return lines


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    """A basic TOML string. JSON and TOML escapes differ only in DEL and surrogate pairs."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
