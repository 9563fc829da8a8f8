"""``accept`` and ``decline`` of a grant, for topics (``talos acl``) and tables, over REST."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import click

from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.rest_path import rest_path
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.output.formats import Output, with_format

_ACCEPT: Final = """\
Accept what the owner of {shown} granted to you: its plain name then means this {kind}.

For programs that cannot write OWNER/NAME{clients}. Revoking the grant also revokes the acceptance.

Example: {example}"""
_DECLINE: Final = """\
Take the acceptance of a grant on {shown} back; the grant remains.

Example: {example}"""


class Granted(NamedTuple):
    """What grants are given on. ``kind``: topic or table; ``argument``: adds its name to a command;
    ``clients``: which programs cannot write OWNER/NAME; ``example``: a command, with {}."""

    kind: str
    argument: Callable[[Callable[..., Any]], Callable[..., Any]]
    example: str
    clients: str = ""


def add_acceptance(group: click.Group, granted: Granted) -> None:
    """Add the commands ``accept`` and ``decline`` to a group."""
    for verb, done, text in (("accept", "accepted", _ACCEPT), ("decline", "declined", _DECLINE)):
        shown = text.format(
            kind=granted.kind,
            shown=granted.kind.upper(),
            clients=granted.clients,
            example=granted.example.format(verb),
        )
        run = granted.argument(with_format(with_server(_setting(granted.kind, done))))
        group.command(verb, help=shown)(run)


def _setting(kind: str, done: str) -> Callable[..., None]:
    accepted = done == "accepted"

    def run(output: Output, server: ServerOptions, **named: str) -> None:
        name = named[kind]
        path = rest_path(f"{kind}s", name, "acceptance")
        server.rest()("PUT" if accepted else "DELETE", path)
        output.done(f"{done} the grant on {name}", **{kind: name, "accepted": accepted})

    return run
