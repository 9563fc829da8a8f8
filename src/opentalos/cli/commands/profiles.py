"""``talos profile``: named servers and keys, in a file that the SDK reads too."""

import sys
from pathlib import Path
from typing import Any

import click

from opentalos.cli.connection.completion import profile_names
from opentalos.cli.connection.profile_file import load_profiles, profiles_path, save_profiles
from opentalos.cli.output.formats import Output, with_format
from opentalos.model.errors import ConfigError


@click.group()
def profile() -> None:
    """Manage connection profiles for --profile and TALOS_PROFILE.

    A profile names a server and a key. Profiles are stored in ~/.config/opentalos/profiles.toml,
    readable only by you; the Python SDK reads the same file (ClientConfig.from_profile).
    """


@profile.command()
@click.argument("name")
@click.option(
    "--url",
    required=True,
    help="Server address, http(s)://HOST:PORT; separate several with commas.",
)
@click.option("--as", "key", metavar="ID:SECRET", help="Access key; prompted for if omitted.")
@click.option("--ca", metavar="FILE", help="Certificate authority (PEM) of https servers.")
@click.option("--default", "as_default", is_flag=True, help="Make it the default profile.")
@with_format
def add(
    name: str, url: str, key: str | None, ca: str | None, as_default: bool, output: Output
) -> None:
    """Add or replace profile NAME.

    The first profile becomes the default. Comments in the file are not preserved.

    Example: talos profile add work --url https://queue-1:9420,https://queue-2:9420 --as ID:SECRET
    """
    from opentalos.sdk.core.config import ClientConfig, split_key, split_urls

    key_id, secret = split_key(_prompt_for_key() if key is None else key, "--as")
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
    output.done(f"saved profile {name} to {path}", name=name, path=str(path))


@profile.command("list")
@with_format
def list_profiles(output: Output) -> None:
    """List the profiles, without secrets.

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
    document = _document_with(name)
    del document["profiles"][name]
    if document.get("default") == name:
        del document["default"]
    save_profiles(profiles_path(), document)
    output.done(f"removed profile {name}", name=name)


@profile.command()
@click.argument("name", shell_complete=profile_names)
@with_format
def use(name: str, output: Output) -> None:
    """Make profile NAME the default.

    Example: talos profile use work
    """
    document = _document_with(name)
    document["default"] = name
    save_profiles(profiles_path(), document)
    output.done(f"profile {name} is now the default", name=name)


def _prompt_for_key() -> str:
    """Ask for the key on the terminal, which keeps it out of the process list."""
    if not sys.stdin.isatty():
        raise click.UsageError("cannot prompt for the key: not a terminal; pass --as")
    return str(click.prompt("key (ID:SECRET)", hide_input=True, err=True))


def _document_with(name: str) -> dict[str, Any]:
    """The profile file; it contains this profile. Raises: ConfigError."""
    document = load_profiles(profiles_path())
    if name not in document.get("profiles", {}):
        raise ConfigError(
            f"profile {name!r} does not exist; list the profiles with talos profile list"
        )
    return document
