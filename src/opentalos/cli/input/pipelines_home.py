"""The options ``--home`` and ``--lake`` of commands that read or write what the pipelines made."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

_HOME_DEFAULT: Final = Path("talos-pipelines")
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def with_pipelines_home(command: CommandT) -> CommandT:
    """The option ``--home``: the directory that a pipeline was run with."""
    return click.option(
        "--home", metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False), default=_HOME_DEFAULT,
        show_default=True, help="Directory with the pipelines' checkpoints and results.",
    )(command)  # fmt: skip


def with_lake(command: CommandT) -> CommandT:
    """The option ``--lake``: where a pipeline was run to keep its tables."""
    return click.option(
        "--lake", default="", metavar="URL",
        help="Lake with the tables of usage and measurements: delta+hdfs://HOST:PORT/PATH or "
        "delta+s3://BUCKET/PATH.", show_default="Parquet below --home",
    )(command)  # fmt: skip
