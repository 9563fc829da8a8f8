"""``talos lease``: who holds the leases of a tenant, over REST."""

from typing import Any, Final
from urllib.parse import quote, urlencode

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.output.formats import Output, with_format

_COLUMNS: Final = ("name", "holder", "epoch", "ttl_ms", "unrenewed_ms", "expired")
_TENANT: Final = click.option(
    "--tenant", metavar="ID", default="", help="Leases of this tenant; for administrators."
)


@click.group()
def lease() -> None:
    """Show leases, such as those of pipelines, and take them away."""


@lease.command(name="list")
@_TENANT
@with_format
@with_server
def list_leases(tenant: str, output: Output, server: ServerOptions) -> None:
    """List the leases of your tenant: who holds them, and under which epoch.

    Example: talos lease list
    """
    rows: list[dict[str, Any]] = server.rest()("GET", _path("", tenant))["leases"]
    output.table(_COLUMNS, rows, empty="no leases")


@lease.command()
@click.argument("name")
@_TENANT
@with_format
@with_server
def show(name: str, tenant: str, output: Output, server: ServerOptions) -> None:
    """Show one lease.

    Example: talos lease show archive-5f0c21d6a9b3e874
    """
    output.record(server.rest()("GET", _path(name, tenant)))


@lease.command()
@click.argument("name")
@click.option("--epoch", metavar="N", type=click.IntRange(0), help="Only if it has this epoch.")
@_TENANT
@with_server
def release(name: str, epoch: int | None, tenant: str, server: ServerOptions) -> None:
    """Take a lease away from its holder, so that another one need not wait until it expires.

    The holder notices at its next renewal and stops. What it writes until then is rejected as soon
    as the next holder has written.

    Example: talos lease release archive-5f0c21d6a9b3e874
    """
    server.rest()("DELETE", _path(name, tenant, epoch))


def _path(name: str, tenant: str, epoch: int | None = None) -> str:
    given = {"tenant": tenant or None, "epoch": epoch}
    query = urlencode({key: value for key, value in given.items() if value is not None})
    path = f"leases/{quote(name, safe='')}" if name else "leases"
    return f"{path}?{query}" if query else path
