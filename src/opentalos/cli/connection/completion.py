"""Names that a shell completes from the server, if it answers soon."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from click.shell_completion import CompletionItem

from opentalos.cli.connection.profile_file import load_profiles, profiles_path
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.rest_path import rest_path
from opentalos.model.errors import ConfigError, TalosError

_ANSWER_S: Final = 1.0
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def topic_argument(command: CommandT) -> CommandT:
    """The argument TOPIC, with completion."""
    return click.argument("topic", shell_complete=topics)(command)


def topics(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Topics that the caller may see."""
    found = _ask(ctx, "topics?scope=visible")
    return _matching([one["name"] for one in found.get("topics", ())], incomplete)


def table_argument(command: CommandT) -> CommandT:
    """The argument TABLE, with completion."""
    return click.argument("table", shell_complete=tables)(command)


def tables(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Tables that the caller may see."""
    found = _ask(ctx, "tables")
    return _matching([one["name"] for one in found.get("tables", ())], incomplete)


def groups(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Consumer groups of the topic that was typed before."""
    topic = ctx.params.get("topic")
    if not topic:
        return []
    found = _ask(ctx, rest_path("topics", topic, "groups"))
    return _matching([one["group"] for one in found.get("groups", ())], incomplete)


def profile_names(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Profiles of this user."""

    try:
        return _matching(load_profiles(profiles_path()).get("profiles", {}), incomplete)
    except ConfigError:
        return []


def _ask(ctx: click.Context, path: str) -> dict[str, Any]:
    """What the server answers; nothing if it does not, as a shell has no place for an error."""

    given = {name: ctx.params.get(name) for name in ("url", "key", "profile", "ca")}
    data = ctx.params.get("data")
    try:
        server = ServerOptions(data=Path(data) if data else None, **given)
        found = server.rest(_ANSWER_S)("GET", path)
    except TalosError:
        return {}
    return found if isinstance(found, dict) else {}


def _matching(names: Any, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in sorted(names) if name.startswith(incomplete)]
