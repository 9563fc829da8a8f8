"""Asking before something is destroyed."""

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def with_yes(command: CommandT) -> CommandT:
    """The option ``--yes``."""
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(command)


def confirm(question: str, yes: bool) -> None:
    """Go on only if somebody agrees. Raises: click.UsageError: nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Nobody is there to be asked: give --yes")
    click.confirm(question, abort=True, err=True)
