"""The commands of ``talos table`` for rows: get, put, remove, increment, scan."""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from opentalos.cli.commands.table.values import ROW_HELP, condition_of, row_of, rows_of
from opentalos.cli.connection.completion import table_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.rest_path import rest_path
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.counts import counted
from opentalos.cli.output.formats import Output, with_format
from opentalos.model.errors import RequestError, TalosError

if TYPE_CHECKING:
    from opentalos.sdk.rest_client import RestClient

_BATCH: Final = 100  # rows of stdin per request
_BATCH_BYTES: Final = 512 << 10  # of their JSON; half of the limit of a request
_PAUSE_S: Final = 0.2  # after a page that was throttled
_PAGE: Final = 500  # rows per page of a scan
CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_row_argument = click.argument("row", nargs=-1)
_columns_option = click.option("--column", "columns", metavar="NAME", multiple=True,
                               help="Return only this column; repeatable.")  # fmt: skip
_removed_columns_option = click.option("--column", "columns", metavar="NAME", multiple=True,
                                       help="Remove only this column; repeatable.")  # fmt: skip


def _with_condition(command: CommandT) -> CommandT:
    for option in (
        click.option("--if", "condition", metavar="'COLUMN >= VALUE'",
                     help="Apply only if the condition holds; operators: =, !=, >, >=, <, <=."),
        click.option("--if-exists/--if-absent", "exists", default=None,
                     help="Apply only if the row exists, or does not."),
    ):  # fmt: skip
        command = option(command)
    return command


@click.command(epilog=ROW_HELP)
@table_argument
@_row_argument
@_columns_option
@with_format
@with_server
def get(
    table: str, row: Sequence[str], columns: Sequence[str], output: Output, server: ServerOptions
) -> None:
    """Show a row of TABLE; ROW is its key.

    Example: talos table get people name=ann
    """
    rows = _Rows(server, table)
    wanted: dict[str, Any] = {"key": rows.row(row)}
    if columns:
        wanted["columns"] = list(columns)
    found = rows("get", wanted)["row"]
    if found is None:
        raise RequestError(f"row not found in table {table}")
    output.record(found)


@click.command(epilog=ROW_HELP)
@table_argument
@_row_argument
@_with_condition
@with_format
@with_server
def put(
    table: str,
    row: Sequence[str],
    condition: str | None,
    exists: bool | None,
    output: Output,
    server: ServerOptions,
) -> None:
    """Write a row of TABLE; columns that are not given keep their values.

    If ROW is -, each line of stdin is a row as a JSON object. Exits with status 1 if a condition
    does not hold.

    \b
    Example: talos table put people name=ann age=31
             talos table put people '{"name": "ann", "age": 32}' --if 'age = 31'
             talos table scan people --format json | talos table put copy -
    """
    rows = _Rows(server, table)
    if list(row) == ["-"]:
        if condition is not None or exists is not None:
            raise click.UsageError("conditions apply to a single row, not to rows from stdin")
        count = rows.put_all(rows_of(sys.stdin))
        output.done(f"{counted(count, 'row')} written", rows=count)
        return
    wanted = {"row": rows.row(row)} | rows.condition(condition, exists)
    _report(rows("put", wanted), "written", output)


@click.command(epilog=ROW_HELP)
@table_argument
@_row_argument
@_removed_columns_option
@_with_condition
@with_format
@with_server
def remove(
    table: str,
    row: Sequence[str],
    columns: Sequence[str],
    condition: str | None,
    exists: bool | None,
    output: Output,
    server: ServerOptions,
) -> None:
    """Remove a row of TABLE, or some of its columns; ROW is its key.

    Exits with status 1 if a condition does not hold.

    Example: talos table remove people name=ann --column age
    """  # fmt: skip
    rows = _Rows(server, table)
    wanted: dict[str, Any] = {"key": rows.row(row)} | rows.condition(condition, exists)
    if columns:
        wanted["columns"] = list(columns)
    _report(rows("remove", wanted), "removed", output)


@click.command(epilog=ROW_HELP)
@table_argument
@_row_argument
@click.option(
    "--by",
    "amounts",
    metavar="COLUMN=AMOUNT",
    multiple=True,
    required=True,
    help="Amount to add, may be negative; repeatable.",
)
@with_format
@with_server
def increment(
    table: str, row: Sequence[str], amounts: Sequence[str], output: Output, server: ServerOptions
) -> None:
    """Add to integer columns of a row of TABLE and show the new values; ROW is its key.

    Example: talos table increment people name=ann --by age=1
    """  # fmt: skip
    rows = _Rows(server, table)
    found = rows("increment", {"key": rows.row(row), "amounts": rows.row(amounts)})
    output.record(found["values"])


@click.command(epilog=ROW_HELP)
@table_argument
@click.option(
    "--from", "start", metavar="COLUMN=VALUE", multiple=True, help="First key, or a prefix of it."
)
@click.option(
    "--to",
    "stop",
    metavar="COLUMN=VALUE",
    multiple=True,
    help="Key to stop before, or a prefix of it.",
)
@click.option(
    "--reverse", is_flag=True, help="Scan in descending order; --from is then the greater key."
)
@click.option(
    "--where",
    "filter_",
    metavar="FILTER",
    help="Return only matching rows; example: age > 30 AND city = 'Rome'.",
)
@click.option("--index", metavar="NAME", help="Scan in the order of this index.")
@_columns_option
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Maximum number of rows.",
)
@click.option("--all", "everything", is_flag=True, help="Return all rows, without a limit.")
@with_format
@with_server
def scan(
    table: str,
    start: Sequence[str],
    stop: Sequence[str],
    reverse: bool,
    filter_: str | None,
    index: str | None,
    columns: Sequence[str],
    limit: int,
    everything: bool,
    output: Output,
    server: ServerOptions,
) -> None:
    """List rows of TABLE in the order of its key.

    \b
    Example: talos table scan people --where "age > 30" --column name
             talos table scan people --from name=a --to name=b --format json
    """  # fmt: skip
    rows = _Rows(server, table)
    wanted: dict[str, Any] = {"reverse": reverse}
    for name, given in (("start", start), ("stop", stop)):
        if given:
            wanted[name] = rows.row(given)
    chosen = {"filter": filter_, "index": index, "columns": list(columns)}
    wanted |= {name: value for name, value in chosen.items() if value}
    found = rows.scan(wanted, None if everything else limit)
    output.table(columns or rows.names, found, empty="no rows")


ROW_COMMANDS: Final = (get, put, remove, increment, scan)


class _Rows:
    """Row operations on one table; reads its columns once."""

    def __init__(self, server: ServerOptions, table: str) -> None:
        self._call: RestClient = server.rest()
        self._table = table
        found = self._call("GET", rest_path("tables", table))
        self._types: Mapping[str, str] = found["columns"]
        keys = [part["column"] for part in (*found["group"], *found["key"])]
        self.names = [*keys, *(name for name in self._types if name not in keys)]

    def __call__(self, operation: str, wanted: Any) -> Any:
        """Call a row operation."""
        return self._call("POST", rest_path("tables", self._table, "rows", operation), wanted)

    def row(self, given: Sequence[str]) -> dict[str, Any]:
        """The row that the arguments describe."""
        return row_of(given, self._types)

    def condition(self, text: str | None, exists: bool | None) -> dict[str, Any]:
        """The condition that the options describe, as a request field."""
        if text is not None and exists is not None:
            raise click.UsageError("pass only one condition")
        if text is not None:
            return {"condition": condition_of(text, self._types)}
        return {} if exists is None else {"condition": {"exists": exists}}

    def put_all(self, rows: Iterable[dict[str, Any]]) -> int:
        """Write all rows; return their number.

        Raises: the error of the first row that failed, with a note of how many were written.
        """
        from opentalos.sdk.rest_client import error_of

        count = 0
        try:
            for batch in _batches(rows):
                items = self("batch", {"items": [{"put": {"row": row}} for row in batch]})["items"]
                count += sum("error" not in item for item in items)
                for item in items:
                    if "error" in item:
                        raise error_of(item["error"])
        except TalosError as error:
            error.add_note(f"{counted(count, 'row')} written")
            raise
        return count

    def scan(self, wanted: Mapping[str, Any], limit: int | None) -> Iterator[Mapping[str, Any]]:
        """The rows, fetched page by page."""
        left = sys.maxsize if limit is None else limit
        sent = dict(wanted)
        while left > 0:
            page = self("scan", sent | {"limit": min(left, _PAGE)})
            yield from page["rows"]
            left -= len(page["rows"])
            if page["next"] is None:
                return
            if page["throttled"]:
                time.sleep(_PAUSE_S)
            sent["start"] = page["next"]


def _report(found: Mapping[str, Any], done: str, output: Output) -> None:
    if not found["applied"]:
        raise RequestError(f"not {done}: the condition does not hold")
    output.done(done, **found)


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """Batches that fit one request; a row that is too large is sent alone."""
    found: list[dict[str, Any]] = []
    left = _BATCH_BYTES
    for row in rows:
        size = len(json.dumps(row))
        if found and (size > left or len(found) == _BATCH):
            yield found
            found, left = [], _BATCH_BYTES
        found.append(row)
        left -= size
    if found:
        yield found
