"""Confirmation of destructive commands."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def with_yes(command: CommandT) -> CommandT:
    """Add the option ``--yes``."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")(command)


def confirm(question: str, yes: bool) -> None:
    """Ask the user. Raises: click.Abort: no; click.UsageError: stdin is not a terminal."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Not a terminal; pass --yes to confirm")
    click.confirm(question, abort=True, err=True)
