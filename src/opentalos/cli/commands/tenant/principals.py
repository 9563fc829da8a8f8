"""``talos user`` and ``talos key``: administration of users and their keys, over REST."""

import time
from datetime import timedelta
from typing import Any, Final

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.rest_path import rest_path
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.times import parse_span, time_text
from opentalos.cli.output.formats import Output, with_format

_ROLES: Final = ("user", "viewer", "operator", "billing", "agent", "administrator")
_MS: Final = timedelta(milliseconds=1)
_SCOPES: Final = ("put", "get", "describe", "manage", "admin")


def _as_expiry(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Unix time in ms of an age from now; ``never`` is 0. Raises: click.BadParameter."""
    if value is None:
        return None
    try:
        return 0 if value == "never" else int(time.time() * 1000 + parse_span(value) / _MS)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error)) from error


_expires_option = click.option(
    "--expires-in",
    "expires_ms",
    metavar="DURATION",
    callback=_as_expiry,
    help="Time until the key is rejected, such as 12h or 90d, or never.",
)


@click.group()
def user() -> None:
    """Manage users."""


@user.command("create")
@click.argument("name")
@click.option("--organisation", metavar="ID", default="", help="Organisation ID (CL...).")
@click.option("--team", metavar="ID", default="", help="Team ID (CI...).")
@click.option("--admin", is_flag=True, help="Create a service administrator.")
@click.option("--role", type=click.Choice(_ROLES), help="What the user may do in the service.")
@click.option("--no-key", is_flag=True, help="Create no key: the user has tokens or certificates.")
@with_format
@with_server
def create_user(
    name: str, no_key: bool, output: Output, server: ServerOptions, **options: Any
) -> None:
    """Create user NAME and a first key; the secret is shown only once.

    Example: talos user create alice
    """
    call = server.rest()
    given = {option: value for option, value in options.items() if value is not None}
    call("POST", "principals", {"id": name, **given})
    if no_key:
        output.done(f"created user {name}", id=name)
    else:
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
            "role": user.get("role") or ("administrator" if user["admin"] else "user"),
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


@user.command("set-role")
@click.argument("name")
@click.argument("role", type=click.Choice(_ROLES))
@with_format
@with_server
def set_role(name: str, role: str, output: Output, server: ServerOptions) -> None:
    """Give user NAME the role ROLE.

    Example: talos user set-role alice viewer
    """
    server.rest()("PATCH", rest_path("principals", name), {"role": role})
    output.done(f"user {name} has the role {role}", id=name, role=role)


@click.group()
def key() -> None:
    """Manage the access keys of users."""


@key.command("create")
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(_SCOPES),
    help="What the key may do; repeatable. Without it: everything that the user may do.",
)
@click.option(
    "--address",
    "addresses",
    multiple=True,
    metavar="CIDR",
    help="Network that the key may be used from; repeatable. Without it: any.",
)
@_expires_option
@with_format
@with_server
def create_key(name: str, output: Output, server: ServerOptions, **options: Any) -> None:
    """Create a key for user NAME; the secret is shown only once.

    Example: talos key create alice --scope put --scope describe --expires-in 90d
    """
    limits = {option: value for option, value in options.items() if value}
    output.record(server.rest()("POST", rest_path("principals", name, "keys"), limits or None))


@key.command("rotate")
@click.argument("key_id")
@_expires_option
@with_format
@with_server
def rotate_key(key_id: str, expires_ms: int | None, output: Output, server: ServerOptions) -> None:
    """Create a successor of key KEY_ID; its secret is shown only once.

    KEY_ID remains valid until talos key disable, so clients can switch without downtime. The
    successor has the same scopes and addresses, and without --expires-in the same expiry.

    Example: talos key rotate AK3F9Q
    """
    expiry = None if expires_ms is None else {"expires_ms": expires_ms}
    output.record(server.rest()("POST", rest_path("keys", key_id, "rotate"), expiry))


@key.command("expire")
@click.argument("key_id")
@click.option(
    "--in",
    "expires_ms",
    metavar="DURATION",
    callback=_as_expiry,
    required=True,
    help="Time until the key is rejected, such as 12h or 90d, or never.",
)
@with_format
@with_server
def expire_key(key_id: str, expires_ms: int, output: Output, server: ServerOptions) -> None:
    """Give the live key KEY_ID another end; its secret stays.

    \b
    Example: talos key expire AK3F9Q --in 90d
             talos key expire AK3F9Q --in never
    """
    server.rest()("PATCH", rest_path("keys", key_id), {"expires_ms": expires_ms})
    end = f"expires at {time_text(expires_ms)}" if expires_ms else "never expires"
    output.done(f"key {key_id} {end}", key_id=key_id, expires_ms=expires_ms)


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
    output.table(
        ("key_id", "state", "created", "expires", "last_used", "scopes", "addresses"),
        [_key_row(key) for key in found],
        empty=f"no keys; create one with talos key create {name}",
    )


def _key_row(key: dict[str, Any]) -> dict[str, Any]:
    expires_ms, used_ms = key.get("expires_ms", 0), key.get("last_used_ms", 0)
    expired = 0 < expires_ms <= time.time() * 1000
    return {
        "key_id": key["key_id"],
        "state": "disabled" if key["disabled"] else "expired" if expired else "live",
        "created": time_text(key["created_ms"]),
        "created_ms": key["created_ms"],
        "expires": time_text(expires_ms) if expires_ms else "never",
        "expires_ms": expires_ms,
        "last_used": time_text(used_ms) if used_ms else "",
        "last_used_ms": used_ms,
        "scopes": " ".join(key.get("scopes", ())),
        "addresses": " ".join(key.get("addresses", ())),
    }
