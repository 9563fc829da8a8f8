"""``talos table stream``: administration of a table's streams, over REST."""

from collections.abc import Mapping
from typing import Any

import click

from opentalos.cli.commands.table.schema import VIEWS
from opentalos.cli.connection.completion import table_argument, topic_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.rest_path import rest_path
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.confirm import confirm, with_yes
from opentalos.cli.input.times import time_text
from opentalos.cli.output.formats import Output, with_format

_COLUMNS = ("topic", "state", "view", "columns", "since", "first_missing", "error")
_OFFSETS = ("partition", "next")


@click.group()
def stream() -> None:
    """Manage the streams of a table.

    A stream publishes every change of the table as a message of a topic.
    """


@stream.command("list")
@table_argument
@with_format
@with_server
def list_streams(table: str, output: Output, server: ServerOptions) -> None:
    """List the streams of TABLE and their states.

    Example: talos table stream list people
    """
    found = server.rest()("GET", rest_path("tables", table, "streams"))
    rows = found["streams"] if output.form == "json" else map(_listed, found["streams"])
    output.table(_COLUMNS, rows, empty="no streams; create one with talos table stream enable")


def _listed(found: Mapping[str, Any]) -> Mapping[str, Any]:
    times = {"since": found["since_ms"], "first_missing": found["gap_ms"]}
    shown = {name: time_text(ms) for name, ms in times.items() if ms is not None}
    return {**found, **shown, "columns": found["columns"] or "all"}


@stream.command()
@table_argument
@topic_argument
@click.option(
    "--view",
    type=click.Choice(VIEWS),
    default="mutate-log",
    show_default=True,
    help="Content of a message; record-image: the row after the change, mutate-log: the operation, "
    "keys-only: the key.",
)
@click.option(
    "--column",
    "columns",
    metavar="NAME",
    multiple=True,
    help="Include only this column beside the key; repeatable.",
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
    """Publish every change of TABLE to TOPIC from now on.

    The topic must exist, and the owner of the table needs the permission to put to it. Enabling a
    stream that stopped with a gap starts it again.

    Example: talos table stream enable people changes --view record-image
    """  # fmt: skip
    wanted = {"enabled": True, "view": view, "columns": list(columns)}
    found = server.rest()("PUT", rest_path("tables", table, "streams", topic), wanted)
    output.done(f"publishing the changes of {table} to {topic} as {view}", **found)


@stream.command()
@table_argument
@topic_argument
@with_yes
@with_format
@with_server
def disable(table: str, topic: str, yes: bool, output: Output, server: ServerOptions) -> None:
    """Stop publishing changes of TABLE to TOPIC and discard pending changes.

    Example: talos table stream disable people changes --yes
    """
    call = server.rest()
    found = call("GET", rest_path("tables", table, "streams"))["streams"]
    known = next((listed for listed in found if listed["topic"] == topic), None)
    confirm(f"Disable the stream of {table} to {topic} and discard pending changes?", yes)
    wanted: dict[str, Any] = {"enabled": False}
    if known is not None:
        wanted |= {"view": known["view"], "columns": known["columns"]}
    shown = call("PUT", rest_path("tables", table, "streams", topic), wanted)
    output.done(f"disabled the stream of {table} to {topic}", **shown)


@stream.command()
@table_argument
@topic_argument
@with_format
@with_server
def status(table: str, topic: str, output: Output, server: ServerOptions) -> None:
    """Show the state and the mark of the stream of TABLE to TOPIC.

    Every change up to the time of the mark is in the topic below the offsets of the mark. With
    --format tsv, only the offsets.

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
            click.echo(f"no mark: {found['no_mark']}")
            return
        click.echo()
    output.table(_OFFSETS, sorted(rows, key=lambda row: row["partition"]))


@stream.command("when-full")
@table_argument
@click.argument("choice", type=click.Choice(("refuse", "gap")))
@with_format
@with_server
def when_full(table: str, choice: str, output: Output, server: ServerOptions) -> None:
    """Choose what TABLE does when a topic of a stream accepts no messages for long.

    refuse: reject writes to the table until the topic accepts messages. gap: stop the stream and
    record the time of the first missing change; enable it again to restart it.

    Example: talos table stream when-full people gap
    """
    found = server.rest()("PATCH", rest_path("tables", table), {"when_full": choice})
    output.done(f"set when-full of {table} to {choice}", **found)
