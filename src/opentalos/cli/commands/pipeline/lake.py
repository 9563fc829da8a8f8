"""``talos lake``: the tables of the lake, which streams of Spark write."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from opentalos.cli.counts import counted
from opentalos.cli.input.confirm import confirm, with_yes
from opentalos.cli.input.pipelines_home import with_lake, with_pipelines_home
from opentalos.cli.input.times import as_time, time_text, unix_ms
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.output.progress import Elapsed
from opentalos.model.errors import ConfigError, NotFound

if TYPE_CHECKING:
    from opentalos.pipelines.lake.lake_table import LakeTable
    from opentalos.pipelines.lake.layout import Layout

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
_MISSING: Final = "talos lake needs pyarrow: pip install 'opentalos[spark,lake]'"
_TARGET_MIB: Final = 128
_UNUSED_HOURS: Final = 168
_US_PER_MS: Final = 1000
_LISTED: Final = ("table", "pipeline", "files", "rows", "bytes", "first", "last")


@click.group()
def lake() -> None:
    """Show and maintain the tables of the lake, while others write and read them.

    TABLE is /PATH, delta+file:///PATH, delta+hdfs://HOST:PORT/PATH or delta+s3://BUCKET/PATH.
    Settings of a store come from the environment: HADOOP_CONF_DIR, AWS_ACCESS_KEY_ID and others.
    Needs pip install 'opentalos[spark,lake]', but not Java.
    """


def _with_table(command: CommandT) -> CommandT:
    option = click.option(
        "--time-column", metavar="COLUMN",
        help="Column of the rows' time, if the table does not record it.",
    )  # fmt: skip
    return option(click.argument("table", metavar="TABLE")(command))


def _with_dry_run(command: CommandT) -> CommandT:
    option = click.option("--dry-run", is_flag=True, help="Only count; delete nothing.")
    return option(command)


def _open(url: str, time_column: str | None) -> "tuple[LakeTable, Layout]":
    """Raises: ConfigError: a package is missing, or the table cannot be opened; NotFound."""
    with _extra():
        from opentalos.pipelines.lake.opening import open_existing
    return open_existing(url, time_column)


@contextmanager
def _extra() -> Iterator[None]:
    """Turn a missing package into an error that names the remedy."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("opentalos"):
            raise
        raise ConfigError(_MISSING) from error


@lake.command(name="list")
@with_lake
@with_pipelines_home
@with_format
def list_tables(home: Path, lake: str, output: Output) -> None:
    """List the tables of the pipelines with their places, for the other commands.

    The archive has its own place, see archive.path.

    Example: talos lake list --lake delta+hdfs://namenode:9820/lake
    """
    from opentalos.pipelines.registry import LAKE_TABLES

    with _extra():
        from opentalos.pipelines.lake.opening import table_place
    rows = []
    with Elapsed("reading the metadata of the tables"):
        for name, pipeline in LAKE_TABLES.items():
            with suppress(NotFound):
                place = table_place(home.absolute(), lake, name)
                found = _open(place, None)[0].summary()
                rows.append(
                    {"table": place, "pipeline": pipeline, "files": found.files,
                     "rows": found.rows, "bytes": found.size_bytes,
                     "first": _time_text(found.first_us), "last": _time_text(found.last_us)}
                )  # fmt: skip
    output.table(_LISTED, rows, empty="no tables")


@lake.command()
@_with_table
@with_format
def show(table: str, time_column: str | None, output: Output) -> None:
    """Show the columns and the size of a table.

    Example: talos lake show delta+hdfs://namenode:9820/lake/clicks
    """
    with Elapsed(f"reading the metadata of {table}"):
        opened, layout = _open(table, time_column)
        found = opened.summary()
    output.record(
        {
            "name": layout.name,
            "format": "Parquet" if found.version is None else "Delta",
            "version": found.version,
            "columns": [f"{item.name} {item.type}" for item in layout.schema],
            "time_column": layout.time,
            "partitioned_by": list(layout.partition_by),
            "files": found.files,
            "rows": found.rows,
            "bytes": found.size_bytes,
            "bytes_per_file": found.size_bytes // max(1, found.files),
            "first": _time_text(found.first_us),
            "last": _time_text(found.last_us),
        }
    )


def _time_text(time_us: int | None) -> str | None:
    return None if time_us is None else time_text(time_us // _US_PER_MS)


@lake.command()
@_with_table
@click.option(
    "--target-mib", type=click.IntRange(1, 4096), default=_TARGET_MIB, show_default=True,
    metavar="N", help="Size of files after compaction, in MiB; larger files stay as they are.",
)  # fmt: skip
@with_format
def compact(table: str, time_column: str | None, target_mib: int, output: Output) -> None:
    """Combine small files, which changes no row.

    Replaced files remain for readers until "talos lake vacuum". A table at a path is always
    compact: it has one file per hour.

    Example: talos lake compact delta+s3://lake/clicks --target-mib 256
    """
    with Elapsed(f"compacting {table}"):
        opened, layout = _open(table, time_column)
        replaced = opened.compact(target_mib << 20)
    text = f"{counted(replaced, 'file')} of {layout.name} replaced by larger ones"
    output.done(text if replaced else f"{layout.name} is compact", name=layout.name, files=replaced)


@lake.command()
@_with_table
@click.option(
    "--before", callback=as_time, required=True, metavar="TIME",
    help="Remove rows of whole hours before this time: 2026-01-01T00Z, or an age such as 400d.",
)  # fmt: skip
@_with_dry_run
@with_yes
@with_format
def expire(
    table: str,
    before: datetime,
    time_column: str | None,
    dry_run: bool,
    yes: bool,
    output: Output,
) -> None:
    """Remove old rows. Their files remain until "talos lake vacuum".

    Example: talos lake expire delta+hdfs://namenode:9820/lake/clicks --before 400d --dry-run
    """
    with Elapsed(f"counting rows of {table}"):
        opened, layout = _open(table, time_column)
        from opentalos.pipelines.lake.tables import hour_of  # it is there if the table is open

        before_ms = hour_of(unix_ms(before))
        found = opened.expire(before_ms, dry_run=True)
    what = f"of {layout.name} before {time_text(before_ms)}, by {layout.time}"
    if dry_run or not found:
        output.done(
            f"{counted(found, 'row')} {what}", name=layout.name, rows=found, dry_run=dry_run
        )
        return
    confirm(f"Remove {counted(found, 'row')} {what}?", yes)
    with Elapsed(f"removing rows of {table}"):
        removed = opened.expire(before_ms)
    output.done(
        f"{counted(removed, 'row')} {what} removed", name=layout.name, rows=removed, dry_run=False
    )


@lake.command()
@_with_table
@click.option(
    "--unused-hours", type=click.IntRange(0), default=_UNUSED_HOURS, show_default=True,
    metavar="N", help="Keep files that a query or a task may have used within this time.",
)  # fmt: skip
@_with_dry_run
@with_yes
@with_format
def vacuum(
    table: str,
    time_column: str | None,
    unused_hours: int,
    dry_run: bool,
    yes: bool,
    output: Output,
) -> None:
    """Delete files that no row needs: replaced, expired, or written and never committed.

    --unused-hours must be longer than the longest query and the longest task: both fail, or lose
    their rows, if a file that they use is deleted.

    Example: talos lake vacuum delta+hdfs://namenode:9820/lake/clicks --dry-run
    """
    with Elapsed(f"listing files of {table}"):
        opened, layout = _open(table, time_column)
        found = opened.vacuum(unused_hours, dry_run=True)
    what = f"of {layout.name}, unused for {counted(unused_hours, 'hour')}"
    if dry_run or not found:
        output.done(
            f"{counted(found, 'file')} {what}", name=layout.name, files=found, dry_run=dry_run
        )
        return
    confirm(f"Delete {counted(found, 'file')} {what}?", yes)
    with Elapsed(f"deleting files of {table}"):
        deleted = opened.vacuum(unused_hours)
    output.done(
        f"{counted(deleted, 'file')} {what} deleted",
        name=layout.name, files=deleted, dry_run=False,
    )  # fmt: skip
