"""Options and checks shared by the commands of ``talos bill``."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from opentalos.model.errors import ConfigError

if TYPE_CHECKING:
    from opentalos.pipelines.lake.periods.month import Month

CommandT = TypeVar("CommandT", bound=Callable[..., Any])


def _as_month(_ctx: click.Context, _param: click.Parameter, value: str | None) -> "Month | None":
    from opentalos.pipelines.lake.periods.month import Month

    try:
        return None if value is None else Month.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def with_month(*, required: bool) -> Callable[[CommandT], CommandT]:
    return click.option(
        "--month", metavar="YYYY-MM", callback=_as_month, required=required, help="Month, in UTC."
    )


@contextmanager
def query_extra() -> Iterator[None]:
    """Turn a missing package of the pipelines into an error that names the remedy."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("opentalos"):
            raise
        raise ConfigError(
            "talos bill needs DuckDB and pyarrow: pip install 'opentalos[query]'"
        ) from error
