"""Shell completion of names that the server knows, with a deadline of one second."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from opentalos.cli.connection.profile_file import load_profiles, profiles_path
from opentalos.cli.connection.rest_path import rest_path
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.model.errors import ConfigError, TalosError

_DEADLINE_S: Final = 1.0
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def topic_argument(command: CommandT) -> CommandT:
    """Add the argument TOPIC, with completion."""
    return click.argument("topic", shell_complete=topics)(command)


def topics(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the topics that are visible to the caller."""
    found = _get(ctx, "topics?scope=visible")
    return _matching([topic["name"] for topic in found.get("topics", ())], incomplete)


def table_argument(command: CommandT) -> CommandT:
    """Add the argument TABLE, with completion."""
    return click.argument("table", shell_complete=tables)(command)


def tables(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the tables that are visible to the caller."""
    found = _get(ctx, "tables")
    return _matching([table["name"] for table in found.get("tables", ())], incomplete)


def groups(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the consumer groups of the topic that precedes on the command line."""
    topic = ctx.params.get("topic")
    if not topic:
        return []
    found = _get(ctx, rest_path("topics", topic, "groups"))
    return _matching([group["group"] for group in found.get("groups", ())], incomplete)


def profile_names(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete the profiles of this user."""

    try:
        return _matching(load_profiles(profiles_path()).get("profiles", {}), incomplete)
    except ConfigError:
        return []


def _get(ctx: click.Context, path: str) -> dict[str, Any]:
    """The server's reply; empty on any error, because completion cannot show one."""

    given = {
        name: ctx.params.get(name) for name in ("url", "key", "profile", "ca", "cert", "cert_key")
    }
    data, key_file = (
        Path(named) if (named := ctx.params.get(name)) else None for name in ("data", "key_file")
    )
    try:
        server = ServerOptions(data=data, key_file=key_file, **given)
        found = server.rest(_DEADLINE_S)("GET", path)
    except TalosError:
        return {}
    return found if isinstance(found, dict) else {}


def _matching(names: Any, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]
