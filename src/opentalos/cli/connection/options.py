"""The options of every command that talks to a server; errors get a hint about the remedy."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from opentalos.cli.connection.completion import profile_names
from opentalos.cli.connection.hints import explain
from opentalos.cli.connection.server_options import DATA_DEFAULT, ServerOptions
from opentalos.model.errors import TalosError

_P = ParamSpec("_P")
_T = TypeVar("_T")


def with_server(command: Callable[_P, _T]) -> Callable[..., _T]:
    """Add the connection options; the command receives them as ``server``."""

    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> _T:
        fields = ("data", "url", "key", "key_file", "profile", "ca")
        server = ServerOptions(**{name: named.pop(name) for name in fields})
        try:
            return command(*arguments, server=server, **named)  # type: ignore[arg-type]
        except TalosError as error:
            explain(error, server, named)
            raise

    for option in (
        click.option(
            "--ca", metavar="FILE", help="Certificate authority (PEM) of an https server."
        ),
        click.option(
            "--data", metavar="DIR", type=click.Path(path_type=Path),
            help="Data directory of a server on this machine; use its address and root key.",
            show_default=str(DATA_DEFAULT),
        ),
        click.option(
            "--profile", metavar="NAME", shell_complete=profile_names,
            help="Connection profile; see talos profile.  [env: TALOS_PROFILE]",
        ),
        click.option(
            "--key-file", metavar="FILE", type=click.Path(path_type=Path),
            help="File that contains the access key, ID:SECRET.",
        ),
        click.option(
            "--as", "key", metavar="ID:SECRET",
            help="Access key. Visible in the process list; prefer TALOS_KEY or a profile.  "
            "[env: TALOS_KEY]",
        ),
        click.option(
            "--url", metavar="URL",
            help="Server address, http(s)://HOST:PORT; separate several with commas.  "
            "[env: TALOS_URL]",
        ),
    ):  # fmt: skip
        run = option(run)
    return run
