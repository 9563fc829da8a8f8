"""``talos table stream``: which topics a table's changes go to, and how far they are."""

from collections.abc import Mapping
from typing import Any

import click

from opentalos.cli.commands.table.schema import VIEWS
from opentalos.cli.connection.completion import table_argument, topic_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.confirm import confirm, with_yes
from opentalos.cli.input.times import time_text
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.rest_path import rest_path

_COLUMNS = ("topic", "state", "view", "columns", "since", "first_missing", "error")
_OFFSETS = ("partition", "next")


@click.group()
def stream() -> None:
    """Streams of a table: every change becomes a message of a topic."""


@stream.command("list")
@table_argument
@with_format
@with_server
def list_streams(table: str, output: Output, server: ServerOptions) -> None:
    """List the streams of TABLE with their state.

    Example: talos table stream list people
    """
    found = server.rest()("GET", rest_path("tables", table, "streams"))
    rows = found["streams"] if output.form == "json" else map(_listed, found["streams"])
    output.table(_COLUMNS, rows, empty="no streams; talos table stream enable makes one")


def _listed(one: Mapping[str, Any]) -> Mapping[str, Any]:
    times = {"since": one["since_ms"], "first_missing": one["gap_ms"]}
    shown = {name: time_text(ms) for name, ms in times.items() if ms is not None}
    return {**one, **shown, "columns": one["columns"] or "all"}


@stream.command()
@table_argument
@topic_argument
@click.option(
    "--view",
    type=click.Choice(VIEWS),
    default="mutate-log",
    show_default=True,
    help="What a message tells of a change.",
)
@click.option(
    "--column",
    "columns",
    metavar="NAME",
    multiple=True,
    help="Only these columns beside the key; else all.",
)
@with_format
@with_server
def enable(
    table: str,
    topic: str,
    view: str,
    columns: tuple[str, ...],
    output: Output,
    server: ServerOptions,
) -> None:
    """Send every change of TABLE to TOPIC from now on.

    The topic must exist, and the owner of the table must be allowed to put into it. A stream that
    stopped with a gap starts anew.

    Example: talos table stream enable people changes --view record-image
    """  # fmt: skip
    wanted = {"enabled": True, "view": view, "columns": list(columns)}
    found = server.rest()("PUT", rest_path("tables", table, "streams", topic), wanted)
    output.done(f"changes of {table} go to {topic} as {view}", **found)


@stream.command()
@table_argument
@topic_argument
@with_yes
@with_format
@with_server
def disable(table: str, topic: str, yes: bool, output: Output, server: ServerOptions) -> None:
    """Send no further changes of TABLE to TOPIC; what was not sent yet is dropped.

    Example: talos table stream disable people changes --yes
    """
    call = server.rest()
    found = call("GET", rest_path("tables", table, "streams"))["streams"]
    known = next((one for one in found if one["topic"] == topic), None)
    confirm(f"Stop the stream of {table} to {topic}?", yes)
    wanted: dict[str, Any] = {"enabled": False}
    if known is not None:
        wanted |= {"view": known["view"], "columns": known["columns"]}
    shown = call("PUT", rest_path("tables", table, "streams", topic), wanted)
    output.done(f"the stream of {table} to {topic} is disabled", **shown)


@stream.command()
@table_argument
@topic_argument
@with_format
@with_server
def status(table: str, topic: str, output: Output, server: ServerOptions) -> None:
    """Show how far the stream of TABLE to TOPIC is; as TSV the offsets of its mark.

    Every change up to the mark's time lies in the topic below its offsets.

    Example: talos table stream status people changes
    """
    found = server.rest()("GET", rest_path("tables", table, "streams", topic))
    if output.form == "json":
        output.record(found)
        return
    mark = found["mark"]
    offsets = [] if mark is None else mark["offsets"].items()
    rows = [{"partition": int(partition), "next": offset} for partition, offset in offsets]
    if output.form == "text":
        shown = {**_listed(found), "when_full": found["when_full"]}
        until = None if mark is None else time_text(mark["timestamp_ms"])
        names = (*_COLUMNS, "when_full")
        output.record({name: shown.get(name) for name in names} | {"complete_until": until})
        if mark is None:
            click.echo(f"no mark now: {found['no_mark']}")
            return
        click.echo()
    output.table(_OFFSETS, sorted(rows, key=lambda row: row["partition"]))


@stream.command("when-full")
@table_argument
@click.argument("choice", type=click.Choice(("refuse", "gap")))
@with_format
@with_server
def when_full(table: str, choice: str, output: Output, server: ServerOptions) -> None:
    """Say what TABLE does when a topic takes no messages for long.

    refuse: writes of the table are refused until it does. gap: the stream stops and says from
    when on changes are missing; enabling it again starts anew.

    Example: talos table stream when-full people gap
    """
    found = server.rest()("PATCH", rest_path("tables", table), {"when_full": choice})
    output.done(f"{table} does this when a topic is full: {choice}", **found)
