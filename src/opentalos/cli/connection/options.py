"""The options of every command that talks to a server; errors get a hint about the remedy."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar

import click

from opentalos.cli.connection.completion import profile_names
from opentalos.cli.connection.hints import explain
from opentalos.cli.connection.server_options import DATA_DEFAULT, ServerOptions
from opentalos.model.errors import TalosError

_NO_USE: Final = (
    "talos: the address is http, so the connection has no TLS, and --ca and --cert have no effect; "
    "use https:// if the server has TLS"
)
_P = ParamSpec("_P")
_T = TypeVar("_T")


def with_server(command: Callable[_P, _T]) -> Callable[..., _T]:
    """Add the connection options; the command receives them as ``server``."""

    @functools.wraps(command)
    def run(*arguments: Any, **named: Any) -> _T:
        fields = ("data", "url", "key", "key_file", "profile", "ca", "cert", "cert_key")
        server = ServerOptions(**{name: named.pop(name) for name in fields})
        try:
            if server.asks_for_tls and not server.config().secure:
                click.echo(_NO_USE, err=True)
            return command(*arguments, server=server, **named)  # type: ignore[arg-type]
        except TalosError as error:
            explain(error, server, named)
            raise

    for option in (
        click.option(
            "--cert-key", metavar="FILE",
            help="Private key (PEM) of --cert, if it is not in the same file.  "
            "[env: TALOS_CERT_KEY]",
        ),
        click.option(
            "--cert", metavar="FILE",
            help="Certificate (PEM) of this client, for a server that wants one.  "
            "[env: TALOS_CERT]",
        ),
        click.option(
            "--ca", metavar="FILE",
            help="Certificate authority (PEM) of an https server.  [env: TALOS_CA]",
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
