"""Former names of commands and options: still accepted, no longer shown in help."""

import copy
from collections.abc import Sequence
from typing import Any

import click


def add_former_name(group: click.Group, former: str, command: click.Command) -> None:
    """Accept a command under its former name too."""
    alias = copy.copy(command)
    alias.hidden = True
    group.add_command(alias, former)


class RenamedOption(click.Option):
    """An option that is accepted under its former name too."""

    def __init__(self, names: Sequence[str], *, former: str, **settings: Any) -> None:
        super().__init__([*names, former], **settings)
        self._former = former

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The help line, without the former name."""
        shown = copy.copy(self)
        shown.opts = [name for name in self.opts if name != self._former]
        return super(RenamedOption, shown).get_help_record(ctx)
