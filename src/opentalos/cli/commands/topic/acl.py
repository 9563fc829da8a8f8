"""``talos acl``: permissions on topics, over REST."""

from collections.abc import Sequence
from typing import Final

import click

from opentalos.cli.commands.tenant.acceptance import Granted, add_acceptance
from opentalos.cli.connection.completion import topic_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.rest_path import rest_path
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.output.formats import Output, with_format

_GRANTABLE: Final = {"put": "PUT_MESSAGE", "get": "GET_MESSAGE", "describe": "DESCRIBE_TOPIC"}
_NO_USERS: Final = ("CL", "CI")  # organisations and teams, which need no record
_EVERYONE: Final = "guest"
_SHORT_NAMES: Final = {name: short for short, name in _GRANTABLE.items()}


@click.group()
def acl() -> None:
    """Manage permissions on topics.

    A grantee is a user, a team (CI...), an organisation (CL...), or guest (everyone).
    """


@acl.command("list")
@topic_argument
@with_format
@with_server
def list_permissions(topic: str, output: Output, server: ServerOptions) -> None:
    """List the permissions on TOPIC, the owner first.

    Example: talos acl list orders
    """
    found = server.rest()("GET", rest_path("topics", topic, "permissions"))["permissions"]
    rows = [
        {
            "grantee": grantee,
            "permissions": [_SHORT_NAMES.get(name, name.lower()) for name in names],
        }
        for grantee, names in found.items()
    ]
    output.table(("grantee", "permissions"), rows)


@acl.command()
@topic_argument
@click.argument("grantee")
@click.argument("permissions", type=click.Choice([*_GRANTABLE]), nargs=-1, required=True)
@with_format
@with_server
def grant(
    topic: str, grantee: str, permissions: Sequence[str], output: Output, server: ServerOptions
) -> None:
    """Grant GRANTEE exactly these permissions on TOPIC.

    They replace the permissions that GRANTEE had before.

    Example: talos acl grant orders alice put describe
    """
    names = [_GRANTABLE[permission] for permission in dict.fromkeys(permissions)]
    path = rest_path("topics", topic, "permissions", grantee)
    server.rest()("PUT", path, {"permissions": names})
    _warn_unless_known(server, grantee)
    granted = list(dict.fromkeys(permissions))
    output.done(
        f"granted {', '.join(granted)} on {topic} to {grantee}",
        topic=topic, grantee=grantee, permissions=granted,
    )  # fmt: skip


def _warn_unless_known(server: ServerOptions, grantee: str) -> None:
    """A grant may precede its user, so it is no error; only administrators see who exists."""
    if grantee.startswith(_NO_USERS) or grantee.lower() == _EVERYONE:
        return
    seen = server.rest()("GET", "principals")["principals"]
    if any(user["admin"] for user in seen) and grantee not in {user["id"] for user in seen}:
        click.echo(
            f"talos: there is no user {grantee} yet; the grant counts once there is one "
            f"(talos user create {grantee}); talos user list shows those there are",
            err=True,
        )


@acl.command()
@topic_argument
@click.argument("grantee")
@with_format
@with_server
def revoke(topic: str, grantee: str, output: Output, server: ServerOptions) -> None:
    """Revoke all permissions of GRANTEE on TOPIC.

    Example: talos acl revoke orders alice
    """
    server.rest()("DELETE", rest_path("topics", topic, "permissions", grantee))
    output.done(f"revoked all permissions of {grantee} on {topic}", topic=topic, grantee=grantee)


_EXAMPLE: Final = "talos acl {} alice/orders"
add_acceptance(acl, Granted("topic", topic_argument, _EXAMPLE, ", such as the official SDKs"))
