"""``talos bill reconcile`` and ``talos bill export``: metered usage."""

import csv
import io
import json
import sys
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from opentalos.cli.commands.bill.options import query_extra, with_month
from opentalos.cli.connection.options import with_server
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.counts import counted
from opentalos.cli.input.durations import Duration
from opentalos.cli.input.pipelines_home import with_lake, with_pipelines_home
from opentalos.cli.output.formats import Output, with_format
from opentalos.cli.output.progress import Progress
from opentalos.model.errors import TalosError

if TYPE_CHECKING:
    from opentalos.pipelines.billing.reconcile import Reconciliation
    from opentalos.pipelines.lake.lake_table import LakeTable
    from opentalos.pipelines.lake.periods.month import Month

_RESULT: Final = (
    "name", "partition", "records", "bytes", "pending", "minutes_compared",
    "difference_records", "difference_bytes", "faults",
)  # fmt: skip


@click.command()
@click.option(
    "--topic", "topics", metavar="TOPIC", multiple=True, help="Check only this topic; repeatable."
)
@click.option(
    "--wait", "wait_s", type=Duration(click.FloatRange(0)), default=0.0, metavar="DURATION",
    help="Maximum time to wait until the present contents of the logs are metered.",
)  # fmt: skip
@with_lake
@with_pipelines_home
@with_format
@with_server
def reconcile(
    topics: tuple[str, ...],
    wait_s: float,
    home: Path,
    lake: str,
    output: Output,
    server: ServerOptions,
) -> int:
    """Compare metered usage with the logs; for administrators.

    Counts all retained logs, block by block. Prints "difference 0", or lists the partitions that
    differ and exits with status 1. Stored records that are not metered yet are pending.

    Example: talos bill reconcile --wait 60
    """
    with query_extra(), Progress("partitions") as progress:
        from opentalos.pipelines.billing.reconcile import reconcile_with
        from opentalos.pipelines.metering.kept_lake import kept_starts_of

        usage, kept = _opened(home, lake), kept_starts_of(home, lake)
        found = reconcile_with(
            server.rest(), usage, kept=kept, wait_s=wait_s, topics=topics,
            show=progress.show,
        )  # fmt: skip
    _show(found, output)
    if found.late:
        raise TalosError(f"not metered after {wait_s:g} s: {', '.join(sorted(found.late)[:5])}")
    return 1 if found.difference else 0


def _show(found: "Reconciliation", output: Output) -> None:
    """Show all partitions to programs; the differing ones and totals to people."""
    shown = found.differing if output.form == "text" else found.partitions
    rows = [
        {"topic": usage.topic, "name": usage.name, "tenant": usage.tenant,
         "partition": usage.partition, "deleted": usage.deleted, "records": usage.records,
         "bytes": usage.bytes, "next_offset": usage.next_offset, "pending": usage.pending,
         "unmetered": usage.unmetered, "minutes_compared": usage.minutes_compared,
         "difference_records": usage.difference_records,
         "difference_bytes": usage.difference_bytes, "faults": usage.faults}
        for usage in shown
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
    records = sum(usage.records for usage in found.partitions)
    minutes = sum(usage.minutes_compared for usage in found.partitions)
    click.echo(
        f"{counted(len(found.partitions), 'partition')}, {counted(records, 'record')} metered, "
        f"{counted(minutes, 'minute')} compared with the log, "
        f"{counted(found.pending, 'record')} pending"
    )
    if not found.difference:
        click.echo("difference 0")
        return
    difference_records = sum(usage.difference_records for usage in found.partitions)
    difference_bytes = sum(usage.difference_bytes for usage in found.partitions)
    click.echo(
        f"difference {counted(difference_records, 'record')}, "
        f"{counted(difference_bytes, 'byte')} in {counted(len(rows), 'partition')}"
    )


@click.command()
@with_month(required=False)
@click.option("--tenant", metavar="TENANT", help="Export only this tenant.")
@click.option("--format", "form", type=click.Choice(("csv", "json")), default="csv",
              show_default=True, help="Output format; json: one object per line.")  # fmt: skip
@with_lake
@with_pipelines_home
def export(month: "Month | None", tenant: str | None, form: str, home: Path, lake: str) -> None:
    """Export raw usage to stdout, one line per partition and minute.

    Example: talos bill export --month 2026-03 --tenant CLshop > usage.csv
    """
    with query_extra():
        from opentalos.pipelines.lake.layout import ALL, Span
        from opentalos.pipelines.metering.usage_lake import UsageLake
        from opentalos.pipelines.metering.usage_table import SCHEMA

        usage = _opened(home, lake)
    span = ALL if month is None else Span(month.begin_ms, month.end_ms)
    names = list(SCHEMA.names)
    out = io.StringIO()
    if form == "csv":
        csv.writer(out, lineterminator="\n").writerow(names)
    with UsageLake(usage, span, tenant=tenant) as found, Progress("lines") as progress:
        done = 0
        for table in found.rows():
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


def _opened(home: Path, lake: str) -> "LakeTable":
    """Raises: NotFound: there is no table at the lake's URL; ConfigError: not such a URL."""
    from opentalos.pipelines.lake.opening import pipeline_table
    from opentalos.pipelines.metering.usage_table import LAYOUT

    return pipeline_table(home, lake, LAYOUT)


def _flush(out: io.StringIO) -> None:
    sys.stdout.write(out.getvalue())
    out.seek(0)
    out.truncate()
