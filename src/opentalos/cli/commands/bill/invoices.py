"""``talos bill invoice`` and ``talos bill plan``: what usage costs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import click

from opentalos.cli.commands.bill.options import query_extra, with_month
from opentalos.cli.input.pipelines_home import with_pipelines_home
from opentalos.cli.output.formats import Output, with_format
from opentalos.model.errors import NotFound, TalosError

if TYPE_CHECKING:
    from opentalos.pipelines.lake.periods.month import Month

_TOTAL: Final = ("tenant", "plan", "records", "bytes", "amount", "currency", "problem")
_LINE: Final = ("line", "plan", "period_begin", "period_end", "resource", "from_count",
                "up_to_count", "quantity", "unit", "price", "amount", "id")  # fmt: skip


@click.command()
@click.argument("tenant", required=False)
@with_month(required=True)
@click.option("--open", "opens", is_flag=True, help="Open the invoice page in the browser.")
@click.option("--path", "only_path", is_flag=True, help="Print only the path of the invoice page.")
@with_pipelines_home
@with_format
def invoice(
    tenant: str | None, month: "Month", opens: bool, only_path: bool, home: Path, output: Output
) -> None:
    """Show the invoice of TENANT, or the totals of all tenants.

    Example: talos bill invoice CLshop --month 2026-03 --open
    """
    if tenant is None and (opens or only_path):
        raise click.UsageError("--open and --path require TENANT")
    with query_extra():
        from opentalos.pipelines.billing.invoices.files import InvoiceFolder, page_name
        from opentalos.pipelines.billing.invoices.tables import LINES, TOTALS, read_rows
        from opentalos.pipelines.billing.invoices.totals import TOTALS_SCHEMA
        from opentalos.pipelines.billing.pricing import LINES as LINES_SCHEMA
    version = InvoiceFolder(home, month).current
    if version is None:
        raise NotFound(
            f"no invoices of {month} below {home}; create them with talos pipeline run billing"
        )
    totals = read_rows(version / TOTALS, TOTALS_SCHEMA.names)
    if tenant is None:
        output.table(_TOTAL, map(_plain, totals), empty="no tenant has a plan or usage")
        return
    total = next((row for row in totals if row["tenant"] == tenant), None)
    if total is None:
        raise NotFound(
            f"tenant {tenant} has no invoice of {month}; list all with talos bill invoice"
        )
    page = (version / page_name(tenant)).absolute()
    if only_path:
        click.echo(str(page))
        return
    stored = read_rows(version / LINES, LINES_SCHEMA.names)
    lines = [row for row in stored if row["tenant"] == tenant]
    output.table(_LINE, map(_plain, lines), empty="no lines")
    if output.form == "text":
        output.record(_plain(total))
    if opens and click.launch(f"file://{quote(str(page))}"):
        raise TalosError(f"could not start a browser; the page is {page}")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Convert decimals to strings with all digits; a float would lose some. Dates are ISO 8601."""
    from datetime import date
    from decimal import Decimal

    def plain(value: Any) -> Any:
        if isinstance(value, Decimal):
            return f"{value:f}"
        return value.isoformat() if isinstance(value, date) else value

    return {name: plain(value) for name, value in row.items()}


@click.group()
def plan() -> None:
    """Check price plans."""


@plan.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@click.option("--tenants", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
              help="Also check this file of tenants.")  # fmt: skip
@click.option("--credits", "credit_file", metavar="FILE",
              type=click.Path(path_type=Path, dir_okay=False),
              help="Also check this file of credits and refunds.")  # fmt: skip
@with_format
def check(folder: Path, tenants: Path | None, credit_file: Path | None, output: Output) -> int:
    """Check the price plans in DIR; report each fault with file and line.

    Example: talos bill plan check plans --tenants tenants.toml
    """
    from opentalos.pipelines.billing.credits.credit_file import check_credits
    from opentalos.pipelines.billing.plans.price_plan_files import check_price_plans
    from opentalos.pipelines.billing.plans.tenant_plans import check_tenant_plans

    plans, faults = check_price_plans(folder)
    if tenants is not None and not faults:
        faults = check_tenant_plans(tenants, plans)[1]
    if credit_file is not None:
        faults = [*faults, *check_credits(credit_file)[1]]
    if faults:
        output.table(("fault",), [{"fault": fault} for fault in faults])
        return 1
    rows = [
        {"plan": version.name, "valid_from": str(version.valid_from),
         "currency": version.currency, "rounding": version.rounding.value,
         "minimum": f"{version.minimum:f}", "resources": [name.value for name in version.rates],
         "file": version.origin}
        for version in plans.versions
    ]  # fmt: skip
    output.table(tuple(rows[0]), rows)
    return 0
