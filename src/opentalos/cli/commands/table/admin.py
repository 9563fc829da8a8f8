"""``talos table``: administration of structured tables, over REST."""

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
from opentalos.cli.commands.tenant.acceptance import Granted, add_acceptance
from opentalos.cli.connection.completion import table_argument
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.rest_path import rest_path
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.counts import counted
from opentalos.cli.input.confirm import confirm, with_yes
from opentalos.cli.input.durations import Duration
from opentalos.cli.input.times import time_text
from opentalos.cli.output.formats import Output, with_format

_LIST_COLUMNS = ("name", "owner", "state", "columns", "shards", "streams", "created")
_COLUMN_COLUMNS = ("column", "type", "part")
_NOT_SHOWN = {"columns", "key", "group", "indexes", "streams", "created_ms", "altered_ms"}


@click.group()
def table() -> None:
    """Manage structured tables, their rows and streams.

    A stream publishes every change of a table to a topic.
    """


for _command in ROW_COMMANDS:
    table.add_command(_command)
table.add_command(stream)
table.add_command(follow)
table.add_command(check)


@table.command("list")
@with_format
@with_server
def list_tables(output: Output, server: ServerOptions) -> None:
    """List the tables that are visible to you.

    Example: talos table list --format tsv
    """
    found = server.rest()("GET", "tables")["tables"]
    rows = found if output.form == "json" else map(_listed, found)
    output.table(_LIST_COLUMNS, rows, empty="no tables; create one with talos table create")


def _listed(found: Mapping[str, Any]) -> Mapping[str, Any]:
    counts = {"columns": len(found["columns"]), "streams": list(found["streams"])}
    return {**found, **counts, "created": time_text(found["created_ms"])}


@table.command(epilog=f"TYPE is {TYPES}.")
@click.argument("name")
@with_schema_options
@click.option("--description", help="Description; free text.")
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
    columns = counted(len(made["columns"]), "column")
    shards = "" if made["shards"] == 1 else f" in {made['shards']} shards"
    output.done(f"created {name} with {columns}{shards}", **made)


@table.command()
@table_argument
@with_format
@with_server
def describe(table: str, output: Output, server: ServerOptions) -> None:
    """Show the schema, settings and streams of TABLE.

    With --format tsv, only the columns.

    Example: talos table describe people
    """
    found: dict[str, Any] = server.rest()("GET", rest_path("tables", table))
    if output.form == "json":
        output.record(found)
        return
    columns = list(_columns(found))
    if output.form == "text":
        shown = {name: value for name, value in found.items() if name not in _NOT_SHOWN}
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
            "columns": [part["column"] for part in index["columns"]],
            "mode": index["mode"],
            "projections": index["projections"],
        }
        for name, index in found["indexes"].items()
    ]


def _streams(found: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [
        {"stream": topic, "view": settings["view"], "columns": settings["columns"] or "all",
         "enabled": settings["enabled"]}
        for topic, settings in found["streams"].items()
    ]  # fmt: skip


@table.command(epilog=f"TYPE is {TYPES}.")
@table_argument
@click.option(
    "--column", "columns", metavar="NAME:TYPE", multiple=True, help="Add a column; repeatable."
)
@click.option(
    "--remove-column", "removed", metavar="NAME", multiple=True, help="Remove a column; repeatable."
)
@click.option(
    "--drop-index", "dropped", metavar="NAME", multiple=True, help="Drop an index; repeatable."
)
@click.option(
    "--ttl",
    "ttl_s",
    type=Duration(click.IntRange(0)),
    metavar="DURATION",
    help="Delete rows this long after their last write; 0: never.",
)
@click.option(
    "--quota",
    "quota_bytes",
    type=click.IntRange(0),
    metavar="BYTES",
    help="Storage limit of the rows; 0: no limit.",
)
@click.option(
    "--read-capacity",
    type=click.IntRange(0),
    metavar="UNITS",
    help="Read units per second; 0: the server's default.",
)
@click.option(
    "--write-capacity",
    type=click.IntRange(0),
    metavar="UNITS",
    help="Write units per second; 0: the server's default.",
)
@click.option(
    "--if-version",
    "schema_version",
    type=click.IntRange(1),
    metavar="N",
    help="Apply only if this is the current schema_version.",
)
@click.option("--description", help="Description; free text.")
@click.option(
    "--allow",
    "allowed",
    metavar="PRINCIPAL:RIGHT[,RIGHT]",
    multiple=True,
    help=f"Grant rights: {', '.join(RIGHTS)}; repeatable.",
)
@click.option("--forbid", metavar="PRINCIPAL", multiple=True, help="Revoke all rights; repeatable.")
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
    """Change the schema, limits or rights of TABLE.

    Keys, hashing, shards and existing columns cannot be changed, and indexes cannot be added. For
    streams, see talos table stream.

    \b
    Example: talos table alter people --column city:string --ttl 86400
             talos table alter people --allow reporting:app-read
             talos table alter people --quota 10000000000 --if-version 3
    """
    wanted: dict[str, Any] = {name: value for name, value in others.items() if value is not None}
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
        _check_existing(("column", removed, found["columns"]), ("index", dropped, found["indexes"]),
                     ("principal with rights", forbid, found["apps"]))  # fmt: skip
        if allowed or forbid:
            apps = found["apps"] | dict(map(rights_of, allowed)) | dict.fromkeys(forbid)
            wanted["apps"] = {principal: rights for principal, rights in apps.items() if rights}
    if not wanted.keys() - {"schema_version"}:
        raise click.UsageError("nothing to change; pass --column, --ttl or another option")
    changed = call("PATCH", path, wanted)
    output.done(f"changed {table}", **changed)


def _check_existing(*named: tuple[str, Sequence[str], Mapping[str, Any]]) -> None:
    """Check that everything to be removed exists; the server ignores names that do not.

    Args:   named: the kind, the names to remove, and the existing ones.
    Raises: UsageError.
    """
    for kind, names, existing in named:
        for name in names:
            if name not in existing:
                known = ", ".join(sorted(existing)) or "none"
                raise click.UsageError(f"the table has no {kind} {name!r}; it has {known}")


@table.command()
@table_argument
@with_yes
@with_format
@with_server
def drop(table: str, yes: bool, output: Output, server: ServerOptions) -> None:
    """Drop TABLE and all its rows; the topics of its streams are kept.

    Example: talos table drop people --yes
    """
    call = server.rest()
    found = call("GET", rest_path("tables", table))
    confirm(f"Drop table {table} of {found['owner']} and all its rows?", yes)
    call("DELETE", rest_path("tables", table))
    output.done(f"dropped {table}", name=table, resource=found["resource"])


@table.command()
@table_argument
@with_format
@with_server
def enable(table: str, output: Output, server: ServerOptions) -> None:
    """Enable reads and writes of TABLE again.

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
    """Reject all reads and writes of TABLE until talos table enable.

    Example: talos table disable people --yes
    """
    confirm(f"Reject all reads and writes of {table}?", yes)
    found = server.rest()("POST", rest_path("tables", table, "disable"))
    output.done(f"{table} is {found['state']}", **found)


add_acceptance(table, Granted("table", table_argument, "talos table {} alice/people"))
