"""A command group that imports a command only when it is invoked."""

import importlib
import importlib.util
from collections.abc import Mapping
from typing import Any

import click

_HELP_CHARS_MAX = 100  # of the line of a command in the list
Entry = tuple[str, str, str]  # module, attribute, help


class LazyGroup(click.Group):
    """Finds commands by module name; an entry whose module is not installed is left out."""

    def __init__(self, *arguments: Any, entries: Mapping[str, Entry], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The installed commands, in the order of the entries."""
        lazy = [name for name, entry in self._entries.items() if _exists(entry[0])]
        return [*super().list_commands(ctx), *lazy]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module and return the command."""
        entry = self._entries.get(cmd_name)
        if entry is None or not _exists(entry[0]):
            return super().get_command(ctx, cmd_name)
        command = getattr(importlib.import_module(entry[0]), entry[1])
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments name. Raises: UsageError: none; with similar names."""
        name = args[0]
        unknown = not name.startswith("-") and self.get_command(ctx, name) is None
        if unknown and not ctx.resilient_parsing:
            from opentalos.cli.input.nearest import nearest

            near = " or ".join(map(repr, nearest(name, self.list_commands(ctx))))
            hint = f" Did you mean {near}?" if near else ""
            raise click.UsageError(f"No such command {name!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list in ``--help`` without importing any command."""
        rows = []
        for name in self.list_commands(ctx):
            entry = self._entries.get(name)
            rows.append(
                (
                    name,
                    entry[2] if entry else self.commands[name].get_short_help_str(_HELP_CHARS_MAX),
                )
            )
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _exists(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
