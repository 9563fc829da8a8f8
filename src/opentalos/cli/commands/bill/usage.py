"""``talos bill reconcile`` and ``talos bill export``: metered usage."""

import csv
import io
import json
import sys
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from opentalos.cli.commands.bill.options import spark_extra, with_month
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.input.pipelines_home import with_pipelines_home
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.output.progress import Progress
from opentalos.model.errors import TalosError

if TYPE_CHECKING:
    from opentalos.pipelines.billing.reconcile import Reconciliation
    from opentalos.pipelines.lake.month import Month

_RESULT: Final = (
    "name", "partition", "records", "bytes", "pending", "minutes_compared",
    "difference_records", "difference_bytes", "faults",
)  # fmt: skip


@click.command()
@click.option("--topic", "topics", multiple=True, help="Only these; repeatable.")
@click.option(
    "--wait", "wait_s", type=click.FloatRange(0), default=0.0, metavar="SECONDS",
    help="Wait so long at most until all that the logs have now is metered.",
)  # fmt: skip
@with_pipelines_home
@with_format
@with_server
def reconcile(
    topics: tuple[str, ...], wait_s: float, home: Path, output: Output, server: ServerOptions
) -> int:
    """Compare what was metered with the logs themselves; for administrators.

    Counts every log that is kept, block by block. Prints "difference 0", or the partitions that
    differ and ends with status 1. What is stored but not yet in the table is pending.

    Example: talos bill reconcile --wait 60
    """
    with spark_extra(), Progress("partitions") as progress:
        from opentalos.pipelines.billing.reconcile import reconcile_with

        found = reconcile_with(
            server.rest(), home, wait_s=wait_s, topics=topics,
            show=progress.show,
        )  # fmt: skip
    _show(found, output)
    if found.late:
        raise TalosError(f"not metered after {wait_s:g} s: {', '.join(sorted(found.late)[:5])}")
    return 1 if found.difference else 0


def _show(found: "Reconciliation", output: Output) -> None:
    """All partitions for programs; for people those that differ, and the sums."""
    shown = found.differing if output.form == "text" else found.partitions
    rows = [
        {"topic": one.topic, "name": one.name, "tenant": one.tenant, "partition": one.partition,
         "deleted": one.deleted, "records": one.records, "bytes": one.bytes,
         "next_offset": one.next_offset, "pending": one.pending, "unmetered": one.unmetered,
         "minutes_compared": one.minutes_compared, "difference_records": one.difference_records,
         "difference_bytes": one.difference_bytes, "faults": one.faults}
        for one in shown
    ]  # fmt: skip
    if output.form == "text":
        _show_sums(found, rows, output)
    else:
        output.table(_RESULT, rows)


def _show_sums(found: "Reconciliation", rows: list[dict[str, Any]], output: Output) -> None:
    if rows:
        output.table(_RESULT[:-1], rows)
        for row in rows:
            for fault in row["faults"]:
                click.echo(f"{row['name']}/{row['partition']}: {fault}")
    records = sum(one.records for one in found.partitions)
    minutes = sum(one.minutes_compared for one in found.partitions)
    click.echo(
        f"{len(found.partitions):,} partitions, {records:,} records metered, "
        f"{minutes:,} minutes compared with the log, {found.pending:,} records pending"
    )
    if not found.difference:
        click.echo("difference 0")
        return
    lost = sum(one.difference_records for one in found.partitions)
    count = sum(one.difference_bytes for one in found.partitions)
    click.echo(f"difference {lost:,} records, {count:,} bytes in {len(rows):,} partitions")


@click.command()
@with_month(required=False)
@click.option("--tenant", help="Only of this one.")
@click.option("--format", "form", type=click.Choice(("csv", "json")), default="csv",
              show_default=True, help="json: one object per line.")  # fmt: skip
@with_pipelines_home
def export(month: "Month | None", tenant: str | None, form: str, home: Path) -> None:
    """Write raw usage, one line per partition and minute, to stdout.

    Example: talos bill export --month 2026-03 --tenant CLshop > usage.csv
    """
    with spark_extra():
        from opentalos.pipelines.metering.usage_lake import UsageLake
        from opentalos.pipelines.metering.usage_table import SCHEMA
    names = list(SCHEMA.names)
    out = io.StringIO()
    if form == "csv":
        csv.writer(out, lineterminator="\n").writerow(names)
    with UsageLake(home) as lake, Progress("lines") as progress:
        done = 0
        for table in lake.rows(month, tenant):
            for row in table.to_pylist():
                row["minute"] = row["minute"].astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")
                if form == "csv":
                    csv.writer(out, lineterminator="\n").writerow(row[name] for name in names)
                else:
                    out.write(json.dumps(row, ensure_ascii=False) + "\n")
            _flush(out)
            done += table.num_rows
            progress.show(done)
    _flush(out)


def _flush(out: io.StringIO) -> None:
    sys.stdout.write(out.getvalue())
    out.seek(0)
    out.truncate()
