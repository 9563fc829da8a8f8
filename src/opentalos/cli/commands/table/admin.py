"""``talos table``: structured tables, their rows and streams, over REST."""

from collections.abc import Mapping, Sequence
from typing import IO, Any

import click

from opentalos.cli.commands.table.check import check
from opentalos.cli.commands.table.follow import follow
from opentalos.cli.commands.table.rows import ROW_COMMANDS
from opentalos.cli.commands.table.schema import (
    RIGHTS,
    TYPES,
    columns_of,
    new_table,
    rights_of,
    with_schema_options,
)
from opentalos.cli.commands.table.streams import stream
from opentalos.cli.connection.completion import table_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.confirm import confirm, with_yes
from opentalos.cli.input.times import time_text
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.rest_path import rest_path

_LIST_COLUMNS = ("name", "owner", "state", "columns", "shards", "streams", "created")
_COLUMN_COLUMNS = ("column", "type", "part")
_NOT_SHOWN = {"columns", "key", "group", "indexes", "streams", "created_ms", "altered_ms"}


@click.group()
def table() -> None:
    """Structured tables, whose every change can go to a topic."""


for _command in ROW_COMMANDS:
    table.add_command(_command)
table.add_command(stream)
table.add_command(follow)
table.add_command(check)


@table.command("list")
@with_format
@with_server
def list_tables(output: Output, server: ServerOptions) -> None:
    """List the tables that you may see.

    Example: talos table list --format tsv
    """
    found = server.rest()("GET", "tables")["tables"]
    rows = found if output.form == "json" else map(_listed, found)
    output.table(_LIST_COLUMNS, rows, empty="no tables; make one with talos table create")


def _listed(one: Mapping[str, Any]) -> Mapping[str, Any]:
    counts = {"columns": len(one["columns"]), "streams": list(one["streams"])}
    return {**one, **counts, "created": time_text(one["created_ms"])}


@table.command(epilog=f"TYPE is {TYPES}.")
@click.argument("name")
@with_schema_options
@click.option("--description", help="Free text.")
@with_format
@with_server
def create(
    name: str, file: IO[str] | None, output: Output, server: ServerOptions, **options: Any
) -> None:
    """Create table NAME.

    \b
    Example: talos table create people --key name:string --column age:int32
             talos table create events --group user:int64 --key id:int64:desc --hashed \\
               --shards 8 --column kind:string --index by_kind:kind --stream changes:mutate-log
    """
    made = server.rest()("POST", "tables", {**new_table(file, **options), "name": name})
    shards = "" if made["shards"] == 1 else f" in {made['shards']} shards"
    output.done(f"created {name} with {len(made['columns'])} columns{shards}", **made)


@table.command()
@table_argument
@with_format
@with_server
def describe(table: str, output: Output, server: ServerOptions) -> None:
    """Show everything about TABLE; as TSV its columns.

    Example: talos table describe people
    """
    found: dict[str, Any] = server.rest()("GET", rest_path("tables", table))
    if output.form == "json":
        output.record(found)
        return
    columns = list(_columns(found))
    if output.form == "text":
        shown = {name: one for name, one in found.items() if name not in _NOT_SHOWN}
        output.record(shown | {"created": time_text(found["created_ms"])})
        click.echo()
    output.table(_COLUMN_COLUMNS, columns)
    if output.form == "text":
        for title, rows in (("indexes", _indexes(found)), ("streams", _streams(found))):
            if rows:
                click.echo()
                output.table(list(rows[0]), rows, empty=f"no {title}")


def _columns(found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    roles = {}
    for name in ("group", "key"):
        for part in found[name]:
            roles[part["column"]] = name + (", descending" if part["descending"] else "")
    names = [*roles, *(name for name in found["columns"] if name not in roles)]
    return [
        {"column": name, "type": found["columns"][name], "part": roles.get(name, "")}
        for name in names
    ]


def _indexes(found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [
        {
            "index": name,
            "columns": [part["column"] for part in one["columns"]],
            "mode": one["mode"],
            "projections": one["projections"],
        }
        for name, one in found["indexes"].items()
    ]


def _streams(found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [
        {"stream": topic, "view": one["view"], "columns": one["columns"] or "all",
         "enabled": one["enabled"]}
        for topic, one in found["streams"].items()
    ]  # fmt: skip


@table.command(epilog=f"TYPE is {TYPES}.")
@table_argument
@click.option("--column", "columns", metavar="NAME:TYPE", multiple=True, help="A new column.")
@click.option("--remove-column", "removed", metavar="NAME", multiple=True, help="Remove it.")
@click.option("--drop-index", "dropped", metavar="NAME", multiple=True, help="Remove it.")
@click.option(
    "--ttl",
    "ttl_s",
    type=click.IntRange(0),
    metavar="SECONDS",
    help="Rows vanish so long after their last write; 0: never.",
)
@click.option(
    "--quota",
    "quota_bytes",
    type=click.IntRange(0),
    metavar="BYTES",
    help="That its rows may take; 0: no limit.",
)
@click.option(
    "--read-capacity",
    type=click.IntRange(0),
    metavar="UNITS",
    help="Read units per second; 0: as many as the server gives each table.",
)
@click.option(
    "--write-capacity",
    type=click.IntRange(0),
    metavar="UNITS",
    help="Write units per second; 0: as many as the server gives each table.",
)
@click.option(
    "--if-version",
    "schema_version",
    type=click.IntRange(1),
    metavar="N",
    help="Only if it still has this schema_version.",
)
@click.option("--description", help="Free text.")
@click.option(
    "--allow",
    "allowed",
    metavar="PRINCIPAL:RIGHT[,RIGHT]",
    multiple=True,
    help=f"Rights: {', '.join(RIGHTS)}.",
)
@click.option("--forbid", metavar="PRINCIPAL", multiple=True, help="Take all its rights.")
@with_format
@with_server
def alter(
    table: str,
    columns: Sequence[str],
    removed: Sequence[str],
    dropped: Sequence[str],
    allowed: Sequence[str],
    forbid: Sequence[str],
    output: Output,
    server: ServerOptions,
    **others: Any,
) -> None:
    """Change columns, time to live, quota, rates or rights of TABLE, or drop an index.

    Keys, hash and shards cannot be changed, nor indexes be added. Streams: talos table stream.

    \b
    Example: talos table alter people --column city:string --ttl 86400
             talos table alter people --allow reporting:app-read
             talos table alter people --quota 10000000000 --if-version 3
    """
    wanted: dict[str, Any] = {name: one for name, one in others.items() if one is not None}
    for name in ("ttl_s", "quota_bytes", "read_capacity", "write_capacity"):
        if wanted.get(name) == 0:
            wanted[name] = None
    if columns or removed:
        wanted["columns"] = columns_of(columns) | dict.fromkeys(removed)
    if dropped:
        wanted["indexes"] = dict.fromkeys(dropped)
    call, path = server.rest(), rest_path("tables", table)
    if removed or dropped or allowed or forbid:
        found = call("GET", path)
        _check_there(("column", removed, found["columns"]), ("index", dropped, found["indexes"]),
                     ("principal with rights", forbid, found["apps"]))  # fmt: skip
        if allowed or forbid:
            rights = dict(map(rights_of, allowed)) | dict.fromkeys(forbid)
            apps = found["apps"] | rights
            wanted["apps"] = {who: one for who, one in apps.items() if one}
    if not wanted.keys() - {"schema_version"}:
        raise click.UsageError("nothing to change: give --column, --ttl or the like")
    changed = call("PATCH", path, wanted)
    output.done(f"changed {table}", **changed)


def _check_there(*named: tuple[str, Sequence[str], Mapping[str, Any]]) -> None:
    """Each: what it is, the names given to be taken away, those that are there. The server takes
    away what is not there without a word. Raises: UsageError."""
    for what, names, there in named:
        for name in names:
            if name not in there:
                known = ", ".join(sorted(there)) or "none"
                raise click.UsageError(f"the table has no {what} {name!r}; it has {known}")


@table.command()
@table_argument
@with_yes
@with_format
@with_server
def drop(table: str, yes: bool, output: Output, server: ServerOptions) -> None:
    """Drop TABLE with all its rows. The topics of its streams stay.

    Example: talos table drop people --yes
    """
    call = server.rest()
    found = call("GET", rest_path("tables", table))
    confirm(f"Drop {table} of {found['owner']} with all its rows?", yes)
    call("DELETE", rest_path("tables", table))
    output.done(f"dropped {table}", name=table, resource=found["resource"])


@table.command()
@table_argument
@with_format
@with_server
def enable(table: str, output: Output, server: ServerOptions) -> None:
    """Let TABLE be read and written again.

    Example: talos table enable people
    """
    found = server.rest()("POST", rest_path("tables", table, "enable"))
    output.done(f"{table} is {found['state']}", **found)


@table.command()
@table_argument
@with_yes
@with_format
@with_server
def disable(table: str, yes: bool, output: Output, server: ServerOptions) -> None:
    """Let nobody read or write TABLE, until talos table enable.

    Example: talos table disable people --yes
    """
    confirm(f"Refuse every read and write of {table}?", yes)
    found = server.rest()("POST", rest_path("tables", table, "disable"))
    output.done(f"{table} is {found['state']}", **found)
