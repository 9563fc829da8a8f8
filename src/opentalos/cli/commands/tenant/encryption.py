"""``talos encryption``: the state of encryption at rest and its data keys, over REST."""

from typing import Final

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.output.formats import Output, with_format

_TENANTS_MAX: Final = 1_000  # of one call


@click.group()
def encryption() -> None:
    """Show encryption at rest and rotate its data keys; for administrators."""


@encryption.command()
@with_format
@with_server
def show(output: Output, server: ServerOptions) -> None:
    """Show whether new data is encrypted, by which server key, and how many data keys there are.

    Example: talos encryption show
    """
    output.record(server.rest()("GET", "encryption"))


@encryption.command()
@click.argument("tenants", metavar="[TENANT]...", nargs=-1)
@with_format
@with_server
def rotate(tenants: tuple[str, ...], output: Output, server: ServerOptions) -> None:
    """Make new versions of the data keys of all tenants, or of these.

    What is stored from now on has the new version; nothing is rewritten, and former versions stay
    for reading. The server key is not changed: see [encryption] other_key_file for that.

    Example: talos encryption rotate CLacme
    """
    if len(tenants) > _TENANTS_MAX:
        raise click.UsageError(f"pass at most {_TENANTS_MAX} tenants")
    call = server.rest()
    document = {"tenants": list(tenants)} if tenants else {}
    output.record(call("POST", "encryption/rotation", document))
