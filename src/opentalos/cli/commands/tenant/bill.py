"""``talos bill``: what was metered, what it costs, and whether it is what the logs have."""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

import click

from opentalos.cli.commands.pipeline.pipeline import HOME_DEFAULT
from opentalos.cli.connection import ServerOptions, with_server
from opentalos.cli.output.output import Output, with_format
from opentalos.cli.output.progress import Progress
from opentalos.model.errors import ConfigError, NotFound, TalosError

if TYPE_CHECKING:
    from opentalos.pipelines.billing.month import Month
    from opentalos.pipelines.billing.reconcile import Reconciliation

_RESULT: Final = (
    "name", "partition", "records", "bytes", "pending", "minutes_compared",
    "difference_records", "difference_bytes", "faults",
)  # fmt: skip
_TOTAL: Final = ("tenant", "plan", "records", "bytes", "amount", "currency", "problem")
_LINE: Final = ("line", "resource", "from_count", "up_to_count", "quantity", "unit", "price",
                "amount")  # fmt: skip
CommandT = TypeVar("CommandT", bound=Callable[..., Any])


@click.group()
def bill() -> None:
    """Metered usage and invoices, as the pipelines metering and billing made them.

    Needs pip install 'opentalos[spark]', but no Java.
    """


def _with_home(command: CommandT) -> CommandT:
    return click.option(
        "--home", type=click.Path(path_type=Path, file_okay=False), default=HOME_DEFAULT,
        show_default=True, help="Of the pipelines.",
    )(command)  # fmt: skip


def _as_month(_ctx: click.Context, _param: click.Parameter, value: str | None) -> "Month | None":
    from opentalos.pipelines.billing.month import Month

    try:
        return None if value is None else Month.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _with_month(*, required: bool) -> Callable[[CommandT], CommandT]:
    return click.option(
        "--month", metavar="YYYY-MM", callback=_as_month, required=required, help="In UTC."
    )


@bill.command()
@click.option("--topic", "topics", multiple=True, help="Only these; repeatable.")
@click.option(
    "--wait", "wait_s", type=click.FloatRange(0), default=0.0, metavar="SECONDS",
    help="Wait so long at most until all that the logs have now is metered.",
)  # fmt: skip
@_with_home
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
    with _spark_extra(), Progress("partitions") as progress:
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


@bill.command()
@_with_month(required=False)
@click.option("--tenant", help="Only of this one.")
@click.option("--format", "form", type=click.Choice(("csv", "json")), default="csv",
              show_default=True, help="json: one object per line.")  # fmt: skip
@_with_home
def export(month: "Month | None", tenant: str | None, form: str, home: Path) -> None:
    """Write raw usage, one line per partition and minute, to stdout.

    Example: talos bill export --month 2026-03 --tenant CLshop > usage.csv
    """
    with _spark_extra():
        from opentalos.pipelines.lake.usage_lake import UsageLake
        from opentalos.pipelines.lake.usage_table import SCHEMA
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


@bill.command()
@click.argument("tenant", required=False)
@_with_month(required=True)
@click.option("--open", "opens", is_flag=True, help="Show its page in the browser.")
@click.option("--path", "only_path", is_flag=True, help="Say where its page is, and no more.")
@_with_home
@with_format
def invoice(
    tenant: str | None, month: "Month", opens: bool, only_path: bool, home: Path, output: Output
) -> None:
    """Show the invoice of TENANT, or the totals of all.

    Example: talos bill invoice CLshop --month 2026-03 --open
    """
    if tenant is None and (opens or only_path):
        raise click.UsageError("--open and --path need a TENANT")
    with _spark_extra():
        import pyarrow.parquet as pq

        from opentalos.pipelines.billing.invoice_files import (
            LINES,
            TOTALS,
            InvoiceFolder,
            page_name,
        )
    version = InvoiceFolder(home, month).current
    if version is None:
        raise NotFound(f"there are no invoices of {month} below {home}; talos pipeline run billing")
    totals = pq.read_table(version / TOTALS).to_pylist()
    if tenant is None:
        output.table(_TOTAL, map(_plain, totals), empty="nobody has a plan or usage")
        return
    total = next((row for row in totals if row["tenant"] == tenant), None)
    if total is None:
        raise NotFound(f"tenant {tenant} has no invoice of {month}; talos bill invoice lists all")
    page = (version / page_name(tenant)).absolute()
    if only_path:
        click.echo(str(page))
        return
    lines = [row for row in pq.read_table(version / LINES).to_pylist() if row["tenant"] == tenant]
    output.table(_LINE, map(_plain, lines), empty="no lines")
    if output.form == "text":
        output.record(_plain(total))
    if opens and click.launch(f"file://{quote(str(page))}"):
        raise TalosError(f"no browser could be started; the page is {page}")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Decimals as texts with all their digits; a float would lose some."""
    from decimal import Decimal

    return {
        name: f"{value:f}" if isinstance(value, Decimal) else value for name, value in row.items()
    }


@bill.group()
def plan() -> None:
    """Price plans."""


@plan.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--tenants", type=click.Path(path_type=Path, dir_okay=False),
              help="Check this file of tenants, too.")  # fmt: skip
@with_format
def check(folder: Path, tenants: Path | None, output: Output) -> int:
    """Check the price plans in DIR; every fault is told with its file and line.

    Example: talos bill plan check plans --tenants tenants.toml
    """
    from opentalos.pipelines.billing.price_plan_files import check_price_plans
    from opentalos.pipelines.billing.tenant_plans import check_tenant_plans

    plans, faults = check_price_plans(folder)
    if tenants is not None and not faults:
        faults = check_tenant_plans(tenants, plans)[1]
    if faults:
        output.table(("fault",), [{"fault": one} for one in faults])
        return 1
    rows = [
        {"plan": one.name, "valid_from": str(one.valid_from), "currency": one.currency,
         "rounding": one.rounding.value, "minimum": f"{one.minimum:f}",
         "resources": [name.value for name in one.rates], "file": one.origin}
        for one in plans.versions
    ]  # fmt: skip
    output.table(tuple(rows[0]), rows)
    return 0


@contextmanager
def _spark_extra() -> Iterator[None]:
    """One clear line where the packages of the pipelines are missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("opentalos"):
            raise
        raise ConfigError("talos bill needs pip install 'opentalos[spark]'") from error
