"""``talos user`` and ``talos key``: administration of users and their keys, over REST."""

from typing import Any

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.times import time_text
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.rest_path import rest_path


@click.group()
def user() -> None:
    """Manage users."""


@user.command("create")
@click.argument("name")
@click.option("--organisation", metavar="ID", default="", help="Organisation ID (CL...).")
@click.option("--team", metavar="ID", default="", help="Team ID (CI...).")
@click.option("--admin", is_flag=True, help="Create a service administrator.")
@with_format
@with_server
def create_user(
    name: str, organisation: str, team: str, admin: bool, output: Output, server: ServerOptions
) -> None:
    """Create user NAME and a first key; the secret is shown only once.

    Example: talos user create alice
    """
    call = server.rest()
    fields = {"id": name, "organisation": organisation, "team": team, "admin": admin}
    call("POST", "principals", fields)
    output.record(call("POST", rest_path("principals", name, "keys")))


@user.command("list")
@with_format
@with_server
def list_users(output: Output, server: ServerOptions) -> None:
    """List users: all of them for an administrator, else yourself.

    Example: talos user list --format json
    """
    rows = [
        {
            "id": user["id"],
            "role": "admin" if user["admin"] else "user",
            "organisation": user["organisation"],
            "team": user["team"],
            "state": "disabled" if user["disabled"] else "live",
            "live_keys": sum(not key["disabled"] for key in user["keys"]),
        }
        for user in server.rest()("GET", "principals")["principals"]
    ]
    output.table(("id", "role", "organisation", "team", "state", "live_keys"), rows)


@user.command("disable")
@click.argument("name")
@with_format
@with_server
def disable_user(name: str, output: Output, server: ServerOptions) -> None:
    """Disable user NAME; its keys stop working immediately.

    Example: talos user disable alice
    """
    server.rest()("PATCH", rest_path("principals", name), {"disabled": True})
    output.done(f"disabled user {name}", id=name, state="disabled")


@user.command("enable")
@click.argument("name")
@with_format
@with_server
def enable_user(name: str, output: Output, server: ServerOptions) -> None:
    """Enable user NAME again, with its existing keys.

    Example: talos user enable alice
    """
    server.rest()("PATCH", rest_path("principals", name), {"disabled": False})
    output.done(f"enabled user {name}", id=name, state="live")


@click.group()
def key() -> None:
    """Manage the access keys of users."""


@key.command("create")
@click.argument("name")
@with_format
@with_server
def create_key(name: str, output: Output, server: ServerOptions) -> None:
    """Create a key for user NAME; the secret is shown only once.

    Example: talos key create alice
    """
    output.record(server.rest()("POST", rest_path("principals", name, "keys")))


@key.command("rotate")
@click.argument("key_id")
@with_format
@with_server
def rotate_key(key_id: str, output: Output, server: ServerOptions) -> None:
    """Create a successor of key KEY_ID; its secret is shown only once.

    KEY_ID remains valid until talos key disable, so clients can switch without downtime.

    Example: talos key rotate AK3F9Q
    """
    output.record(server.rest()("POST", rest_path("keys", key_id, "rotate")))


@key.command("disable")
@click.argument("key_id")
@with_format
@with_server
def disable_key(key_id: str, output: Output, server: ServerOptions) -> None:
    """Disable key KEY_ID permanently.

    Example: talos key disable AK3F9Q
    """
    server.rest()("DELETE", rest_path("keys", key_id))
    output.done(f"disabled key {key_id}", key_id=key_id, state="disabled")


@key.command("list")
@click.argument("name")
@with_format
@with_server
def list_keys(name: str, output: Output, server: ServerOptions) -> None:
    """List the keys of user NAME, without secrets.

    Example: talos key list alice
    """
    found = server.rest()("GET", rest_path("principals", name, "keys"))["keys"]
    rows: list[dict[str, Any]] = [
        {
            "key_id": key["key_id"],
            "state": "disabled" if key["disabled"] else "live",
            "created": time_text(key["created_ms"]),
            "created_ms": key["created_ms"],
        }
        for key in found
    ]
    output.table(("key_id", "state", "created"), rows)
