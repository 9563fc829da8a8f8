"""``talos user`` and ``talos key``: principals of a running server, over REST."""

from typing import Any
from urllib.parse import quote

import click

from opentalos.cli.rest_client import RestClient, with_server


@click.group()
def user() -> None:
    """Users of a running server."""


@user.command("create")
@click.argument("name")
@click.option("--organisation", default="", help="Organisation id (CL...).")
@click.option("--team", default="", help="Team id (CI...).")
@click.option("--admin", is_flag=True, help="Make a service administrator.")
@with_server
def create_user(name: str, organisation: str, team: str, admin: bool, **server: Any) -> None:
    """Create user NAME with a first key; the secret is shown once."""
    call = RestClient(**server)
    fields = {"id": name, "organisation": organisation, "team": team, "admin": admin}
    call("POST", "principals", fields)
    _show_key(call("POST", f"principals/{quote(name, safe='')}/keys"))


@user.command("list")
@with_server
def list_users(**server: Any) -> None:
    """List users with their keys."""
    for principal in RestClient(**server)("GET", "principals")["principals"]:
        live = sum(not key["disabled"] for key in principal["keys"])
        role = "admin" if principal["admin"] else "user"
        click.echo(f"{principal['id']}\t{role}\t{principal['organisation'] or '-'}\t{live} keys")


@click.group()
def key() -> None:
    """Access keys of users."""


@key.command("create")
@click.argument("name")
@with_server
def create_key(name: str, **server: Any) -> None:
    """Create a key for user NAME; the secret is shown once."""
    _show_key(RestClient(**server)("POST", f"principals/{quote(name, safe='')}/keys"))


@key.command("disable")
@click.argument("key_id")
@with_server
def disable_key(key_id: str, **server: Any) -> None:
    """Disable key KEY_ID for ever."""
    RestClient(**server)("DELETE", f"keys/{quote(key_id, safe='')}")
    click.echo(f"disabled {key_id}")


@key.command("list")
@click.argument("name")
@with_server
def list_keys(name: str, **server: Any) -> None:
    """List the keys of user NAME, without secrets."""
    for item in RestClient(**server)("GET", f"principals/{quote(name, safe='')}/keys")["keys"]:
        click.echo(f"{item['key_id']}\t{'disabled' if item['disabled'] else 'live'}")


def _show_key(issued: dict[str, Any]) -> None:
    click.echo(f"key id: {issued['key_id']}")
    click.echo(f"secret: {issued['secret']}")
