"""``talos profile``: servers and keys by name, in one file that the SDK reads too."""

import json
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import click

from opentalos.cli.names import profile_names
from opentalos.cli.output.output import Output, with_format
from opentalos.model.errors import ConfigError

_SECRET_MODE: Final = 0o600
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")  # a name that TOML wants no quotes around


@click.group()
def profile() -> None:
    """Servers and keys by name, for --profile and TALOS_PROFILE.

    They are kept in ~/.config/opentalos/profiles.toml, which only you can read; the Python SDK
    reads the same file (ClientConfig.from_profile).
    """


@profile.command()
@click.argument("name")
@click.option("--url", required=True, help="http(s)://HOST:PORT; several with commas between.")
@click.option("--as", "key", metavar="ID:SECRET", help="Key to use; else it is asked for.")
@click.option("--ca", metavar="FILE", help="Certificate authority of https servers.")
@click.option("--default", "as_default", is_flag=True, help="Use it where no other is named.")
@with_format
def add(
    name: str, url: str, key: str | None, ca: str | None, as_default: bool, output: Output
) -> None:
    """Add profile NAME, or replace it.

    The first profile is the default one. Comments in the file are not kept.

    Example: talos profile add work --url https://queue-1:9420,https://queue-2:9420 --as ID:SECRET
    """
    from opentalos.sdk.core.config import ClientConfig, split_key, split_urls

    key_id, secret = split_key(_asked() if key is None else key, "--as")
    made = ClientConfig(endpoints=split_urls(url), key_id=key_id, secret=secret)
    table: dict[str, Any] = {"endpoints": list(made.endpoints), "key": f"{key_id}:{secret}"}
    if ca is not None:
        table["tls"] = {"ca_file": str(Path(ca).resolve())}
    document = load_profiles(profiles_path())
    document.setdefault("profiles", {})[name] = table
    if as_default or "default" not in document:
        document["default"] = name
    save_profiles(profiles_path(), document)
    path = profiles_path()
    output.done(f"profile {name} is in {path}", name=name, path=str(path))


@profile.command("list")
@with_format
def list_profiles(output: Output) -> None:
    """List profiles, without secrets.

    Example: talos profile list
    """
    document = load_profiles(profiles_path())
    rows = [
        {
            "name": name,
            "default": name == document.get("default"),
            "endpoints": table.get("endpoints", []),
            "key_id": str(table.get("key", "")).partition(":")[0],
        }
        for name, table in sorted(document.get("profiles", {}).items())
    ]
    columns = ("name", "default", "endpoints", "key_id")
    output.table(columns, rows, empty="no profiles; add one with talos profile add")


@profile.command()
@click.argument("name", shell_complete=profile_names)
@with_format
def remove(name: str, output: Output) -> None:
    """Remove profile NAME.

    Example: talos profile remove work
    """
    document = _with(name)
    del document["profiles"][name]
    if document.get("default") == name:
        del document["default"]
    save_profiles(profiles_path(), document)
    output.done(f"profile {name} is removed", name=name)


@profile.command()
@click.argument("name", shell_complete=profile_names)
@with_format
def use(name: str, output: Output) -> None:
    """Make profile NAME the one that is used where no other is named.

    Example: talos profile use work
    """
    document = _with(name)
    document["default"] = name
    save_profiles(profiles_path(), document)
    output.done(f"profile {name} is the default one", name=name)


def _asked() -> str:
    """A key that no list of processes shows."""
    if not sys.stdin.isatty():
        raise click.UsageError("nobody is there to be asked for the key: give --as")
    return str(click.prompt("key (ID:SECRET)", hide_input=True, err=True))


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


def _with(name: str) -> dict[str, Any]:
    """The file, which has this profile. Raises: ConfigError."""
    document = load_profiles(profiles_path())
    if name not in document.get("profiles", {}):
        raise ConfigError(f"there is no profile {name!r}; talos profile list shows those there are")
    return document
