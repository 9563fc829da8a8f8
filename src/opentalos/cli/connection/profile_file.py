"""The profile file of this user: read for completion, changed by ``talos profile``."""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from opentalos.model.errors import ConfigError

_SECRET_MODE: Final = 0o600
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")  # a name that TOML wants no quotes around


def profiles_path() -> Path:
    """The file of this user."""
    from opentalos.sdk.core.config import PROFILES_FILE

    return Path.home() / PROFILES_FILE


def load_profiles(path: Path) -> dict[str, Any]:
    """The file as it is; empty if there is none. Raises: ConfigError."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"cannot use the profile file {path}: {error}") from error
    profiles = found.get("profiles", {})
    if not isinstance(profiles, dict) or not all(
        isinstance(one, dict) for one in profiles.values()
    ):
        raise ConfigError(f"cannot use the profile file {path}: [profiles.NAME] must be tables")
    return found


def save_profiles(path: Path, document: dict[str, Any]) -> None:
    """Replace the file in one step; only its owner may read it, as it has secrets."""
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
    """TOML of nested tables with texts, numbers, booleans and lists of these."""
    return "\n".join(_lines(document, ())).lstrip("\n") + "\n"


def _lines(table: dict[str, Any], names: tuple[str, ...]) -> list[str]:
    lines = [
        f"{_name(name)} = {_value(one)}" for name, one in table.items() if not isinstance(one, dict)
    ]
    if names and (lines or not table):
        lines = ["", f"[{'.'.join(map(_name, names))}]", *lines]
    for name, one in table.items():
        if isinstance(one, dict):
            lines += _lines(one, (*names, name))
    return lines


def _name(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    return _text(value) if isinstance(value, str) else json.dumps(value)


def _text(text: str) -> str:
    """A basic TOML string. JSON's escapes are TOML's, but for DEL and surrogate pairs."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
