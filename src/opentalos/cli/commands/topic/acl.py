"""``talos acl``: who may do what with a topic, over REST."""

from collections.abc import Sequence
from typing import Final

import click

from opentalos.cli.connection.completion import topic_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.rest_path import rest_path

_GRANTABLE: Final = {"put": "PUT_MESSAGE", "get": "GET_MESSAGE", "describe": "DESCRIBE_TOPIC"}
_WORDS: Final = {name: word for word, name in _GRANTABLE.items()}


@click.group()
def acl() -> None:
    """Who may do what with a topic.

    A grantee is a user, a team (CI...), an organisation (CL...), or guest: everybody.
    """


@acl.command("list")
@topic_argument
@with_format
@with_server
def list_permissions(topic: str, output: Output, server: ServerOptions) -> None:
    """List who may do what with TOPIC, its owner first.

    Example: talos acl list orders
    """
    found = server.rest()("GET", rest_path("topics", topic, "permissions"))["permissions"]
    rows = [
        {"grantee": name, "permissions": [_WORDS.get(one, one.lower()) for one in names]}
        for name, names in found.items()
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
    """Let GRANTEE do exactly this with TOPIC; what it could do before is overwritten.

    Example: talos acl grant orders alice put describe
    """
    names = [_GRANTABLE[one] for one in dict.fromkeys(permissions)]
    path = rest_path("topics", topic, "permissions", grantee)
    server.rest()("PUT", path, {"permissions": names})
    words = ", ".join(dict.fromkeys(permissions))
    output.done(
        f"{grantee} may {words} {topic}",
        topic=topic, grantee=grantee, permissions=list(dict.fromkeys(permissions)),
    )  # fmt: skip


@acl.command()
@topic_argument
@click.argument("grantee")
@with_format
@with_server
def revoke(topic: str, grantee: str, output: Output, server: ServerOptions) -> None:
    """Take everything on TOPIC back from GRANTEE.

    Example: talos acl revoke orders alice
    """
    server.rest()("DELETE", rest_path("topics", topic, "permissions", grantee))
    output.done(f"{grantee} may do nothing with {topic}", topic=topic, grantee=grantee)
