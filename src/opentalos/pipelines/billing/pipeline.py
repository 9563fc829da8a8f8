"""The pipeline ``billing``: a month's usage and the price plans into invoices (promise I9)."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F

from opentalos.adapters.local.invoice_folder import SUMMARY, document_name
from opentalos.adapters.system_clock import SystemClock
from opentalos.model.errors import ConfigError, TalosError
from opentalos.pipelines.billing.closing import edges_of, unfinished, unreported, watermarks
from opentalos.pipelines.billing.credits.credit import Credit, carried, with_credits
from opentalos.pipelines.billing.credits.credit_file import load_credits
from opentalos.pipelines.billing.credits.used import open_months, used_elsewhere
from opentalos.pipelines.billing.daily_usage import DAYS_SCHEMA, days_by_tenant, days_table
from opentalos.pipelines.billing.egress import (
    LATE,
    READS_SCHEMA,
    billable,
    month_egress,
    reads_table,
    with_resource,
)
from opentalos.pipelines.billing.invoices.daily_chart import daily_chart
from opentalos.pipelines.billing.invoices.document import document, summary
from opentalos.pipelines.billing.invoices.files import Files, InvoiceFolder, page_name
from opentalos.pipelines.billing.invoices.invoice import Others, invoices
from opentalos.pipelines.billing.invoices.page import render
from opentalos.pipelines.billing.invoices.tables import (
    DAYS,
    KEPT,
    LINES,
    PROBLEMS,
    READS,
    TOPICS,
    TOTALS,
    to_parquet,
)
from opentalos.pipelines.billing.invoices.totals import totals
from opentalos.pipelines.billing.plans.price_plan import PricePlans, Resource
from opentalos.pipelines.billing.plans.price_plan_files import load_price_plans
from opentalos.pipelines.billing.plans.tenant_plans import (
    Assigned,
    TenantPlans,
    default_only,
    load_tenant_plans,
)
from opentalos.pipelines.billing.pricing import line_table, priced_rows
from opentalos.pipelines.billing.storage import (
    KEPT_SCHEMA,
    kept_table,
    month_storage,
    reported_since,
)
from opentalos.pipelines.billing.usage_sums import (
    PARTIAL,
    broken_chains,
    daily_totals,
    gaps,
    partial_sums,
    partition_totals,
    span_totals,
    topic_totals,
)
from opentalos.pipelines.lake.layout import Span
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.lake.sink import scanned_frame
from opentalos.pipelines.metering.usage_frame import usage_frame, usage_scan
from opentalos.pipelines.metering.usage_table import LAYOUT
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.runtime.connection import client_config
from opentalos.pipelines.session import epoch_of
from opentalos.sdk.rest_client import TIMEOUT_S, RestClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger(__name__)
_PROBLEMS_SHOWN: Final = 5
_YES_NO: Final = {"yes": True, "no": False}


class BilledWithProblems(TalosError):
    """The invoices are written, but a part of the month could not be billed; the text names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingOptions:
    """The month to bill, and the plans."""

    month: Month
    plans: PricePlans
    tenants: TenantPlans
    credits: tuple[Credit, ...]
    close: bool
    reopen: bool
    fails: bool  # on a problem, after all else was billed

    @classmethod
    def of(cls, options: Mapping[str, str], now: datetime) -> "BillingOptions":
        """Read plans and tenants. Raises: ConfigError: with file and line if a file is invalid."""
        if "plans" not in options:
            raise ConfigError("the price plans are missing: give -o billing.plans=DIR")
        plans = load_price_plans(Path(options["plans"]))
        default = options.get("default-plan", "")
        if "tenants" in options:
            tenants = load_tenant_plans(Path(options["tenants"]), plans, default)
        else:
            tenants = default_only(default, plans)
        on_problem = options.get("on-problem", "fail")
        if on_problem not in ("fail", "report"):
            raise ConfigError(f"on-problem is {on_problem!r}: choose fail or report")
        return cls(
            month=_month(options.get("month", "this"), now),
            plans=plans,
            tenants=tenants,
            credits=load_credits(Path(options["credits"])) if "credits" in options else (),
            close=_yes(options, "close"),
            reopen=_yes(options, "reopen"),
            fails=on_problem == "fail",
        )


@dataclass(frozen=True, slots=True)
class Bill:
    """The bill of a month as tables, each in a fixed order."""

    month: Month
    assigned: Sequence[Assigned]
    lines: pa.Table
    topics: pa.Table
    problems: Sequence[str]
    days: pa.Table = field(default_factory=DAYS_SCHEMA.empty_table)  # of ``days_table``
    reads: pa.Table = field(default_factory=READS_SCHEMA.empty_table)  # of ``reads_table``
    kept: pa.Table = field(default_factory=KEPT_SCHEMA.empty_table)  # of ``kept_table``


class Billing:
    """Recomputes all invoices of a month; the same usage and plans give the same bytes."""

    name = "billing"
    about = "invoices of a month from usage and price plans"
    options: Mapping[str, str] = MappingProxyType(
        {
            "month": "YYYY-MM, this (default) or last: the month in UTC",
            "plans": "directory of price plans; see talos bill plan check",
            "tenants": "file that says which tenant has which plan",
            "credits": "file of credits and refunds, each with an id",
            "default-plan": "plan of tenants that the file does not name",
            "close": "yes: make the invoices final; the month must be over and have no problems",
            "reopen": "yes: allow a closed month to change, as its next revision",
            "on-problem": "fail (default): end with an error after all else is billed; or report",
        }
    )

    def run(self, spark: "SparkSession", settings: PipelineSettings) -> None:
        """Bill. Raises: ConfigError: nothing changed; BilledWithProblems: the rest was billed."""
        now = datetime.fromtimestamp(SystemClock().wall_ms() // 1000, UTC)
        options = BillingOptions.of(settings.options, now)
        folder = InvoiceFolder(settings.home, options.month)
        if options.close:  # first: what is in the table then is in the bill
            _check_over(options, now)
            _check_metered(spark, settings, options)
        bill = make_bill(spark, settings, options)
        if options.close and bill.problems:
            raise ConfigError(f"{options.month} cannot be closed: {_shown(bill.problems)}")
        if options.close:
            _check_carried(settings.home, bill)
        epoch, files_of = epoch_of(spark), partial(invoice_files, bill)
        version = folder.publish(files_of, reopen=options.reopen, epoch=epoch)
        if options.close:
            folder.close(epoch=epoch)
        _LOG.info("billed: month=%s folder=%s", options.month, version)
        if bill.problems:
            _report_problems(bill, fails=options.fails)


def make_bill(spark: "SparkSession", settings: PipelineSettings, options: BillingOptions) -> Bill:
    """Price the month's usage in the lake. Raises: ConfigError: ANSI mode is off, or as
    ``usage_frame``."""
    if spark.conf.get("spark.sql.ansi.enabled") != "true":
        raise ConfigError("billing needs spark.sql.ansi.enabled=true, so that overflows are errors")
    month = options.month
    span = Span(month.begin_ms, month.end_ms)
    stored = usage_scan(spark, settings, span)
    partial = scanned_frame(spark, stored, LAYOUT, span, partial_sums, PARTIAL)
    partitions = partition_totals(partial, month, options.tenants.spans(month)).persist()
    try:
        order: Any = [(name, "ascending") for name in ("tenant", "name", "topic")]
        topics = topic_totals(partitions).toArrow().sort_by(order)
        order = [(name, "ascending") for name in ("tenant", "day")]
        egress = _billable(spark, settings, options, Resource.EGRESS)
        storage = _billable(spark, settings, options, Resource.STORAGE)
        spans = span_totals(partitions).toArrow().sort_by(order).to_pylist()
        spans = with_resource(spans, egress, Resource.EGRESS) if egress else spans
        if storage:
            spans = with_resource(spans, storage, Resource.STORAGE, "byte_minutes")
        days = [(span["tenant"], span["day"]) for span in spans]
        assigned = options.tenants.assigned(days, month, options.plans)
        rows, problems = with_credits(
            priced_rows(assigned, spans, month),
            assigned,
            options.credits,
            used_elsewhere(settings.home, month, options.credits),
            month,
        )
        lines = line_table(rows)
        problems = [
            *(
                f"tenant {part.tenant}: {part.problem_of(month)}"
                for part in assigned
                if part.problem
            ),
            *problems,
        ]
        broken = broken_chains(partitions).collect()
        by_day = days_table(daily_totals(partitions))
    finally:
        partitions.unpersist()
    if broken:
        places = F.broadcast(spark.createDataFrame(broken, "topic string, partition int"))
        usage = scanned_frame(spark, stored, LAYOUT, span, iter, LAYOUT.schema)
        found = gaps(usage.join(places, ["topic", "partition"], "left_semi")).collect()
        problems += [
            f"topic {row['name']} ({row['topic']}), partition {row['partition']}: its minutes have "
            f"gaps or overlaps, {row['missing']} records are missing and {row['doubled']} are "
            "doubled; see talos bill reconcile"
            for row in sorted(found)
        ]
    others = reads_table(egress), kept_table(storage)
    return Bill(month, assigned, lines, topics, problems, by_day, *others)


def _billable(
    spark: "SparkSession",
    settings: PipelineSettings,
    options: BillingOptions,
    resource: Resource,
) -> list[Mapping[str, Any]]:
    """Of a resource that has a table of its own, which is read only if it has a price."""
    tenants, month = options.tenants, options.month
    if not options.plans.price(resource, month):
        return []
    rows_of = month_egress if resource is Resource.EGRESS else month_storage
    rows = rows_of(spark, settings, month, tenants.spans(month))
    used = [(row["tenant"], row["day"]) for row in rows]
    return billable(rows, tenants.assigned(used, month, options.plans), resource)


def invoice_files(bill: Bill, revision: int) -> Files:
    """The content of all files of the invoices."""
    lines, topics = bill.lines.to_pylist(), bill.topics.to_pylist()
    others = Others(bill.reads.to_pylist(), bill.kept.to_pylist())
    days = days_by_tenant(bill.days, bill.month)
    files = {}
    for invoice in invoices(bill.assigned, lines, topics, bill.month, revision, others):
        used = days.get(invoice.tenant, ())
        files[page_name(invoice.tenant)] = render(invoice, daily_chart(bill.month, used)).encode()
        files[document_name(invoice.tenant)] = document(invoice, used)
    files[LINES] = to_parquet(bill.lines)
    files[TOPICS] = to_parquet(bill.topics)
    files[DAYS] = to_parquet(bill.days)
    if others.reads:
        files[READS] = to_parquet(bill.reads)
    if others.kept:
        files[KEPT] = to_parquet(bill.kept)
    by_tenant = totals(bill.assigned, lines, topics, bill.month, revision)
    files[TOTALS] = to_parquet(by_tenant)
    files[SUMMARY] = summary(by_tenant.to_pylist(), revision)
    files[PROBLEMS] = "".join(f"{problem}\n" for problem in bill.problems).encode()
    return files


def _month(text: str, now: datetime) -> Month:
    this = Month(now.year, now.month)
    if text == "this":
        return this
    if text == "last":
        before = this.begin - timedelta(days=1)
        return Month(before.year, before.month)
    try:
        return Month.parse(text)
    except ValueError as error:
        raise ConfigError(f"month: {error}, or this or last") from error


def _yes(options: Mapping[str, str], name: str) -> bool:
    given = options.get(name, "no")
    if given not in _YES_NO:
        raise ConfigError(f"{name} is {given!r}: choose yes or no")
    return _YES_NO[given]


def _check_over(options: BillingOptions, now: datetime) -> None:
    month = options.month
    over = month.end + (LATE if options.plans.price(Resource.EGRESS, month) else timedelta())
    if now < over:
        raise ConfigError(f"{month} cannot be closed before {over:%Y-%m-%d %H:%M} UTC")


def _check_metered(
    spark: "SparkSession", settings: PipelineSettings, options: BillingOptions
) -> None:
    """Raises: ConfigError: usage of the month may still come, or is not what was metered; the
    server's errors."""
    month = options.month
    marks = watermarks(RestClient(client_config(settings, TIMEOUT_S)))
    # Read after the server was asked.
    late = list(unfinished(marks, edges_of(usage_frame(spark, settings), month)))
    if options.plans.price(Resource.STORAGE, month):
        late += unreported(marks, reported_since(spark, settings, month))
    found = [
        f"topic {name} ({topic}), partition {partition}: {reason}"
        for (topic, partition), name, reason in late
    ]
    if found:
        raise ConfigError(
            f"{month} cannot be closed: {_shown(found)}; let metering catch up, or see talos bill "
            "reconcile"
        )


def _check_carried(home: Path, bill: Bill) -> None:
    """Raises: ConfigError: what earlier months take of a credit may still change."""
    days = [row["date"] for row in carried(bill.lines.to_pylist(), bill.month)]
    if days:
        first = Month(min(days).year, min(days).month)
        before = open_months(home, first, bill.month)
        if before:
            raise ConfigError(
                f"{bill.month} cannot be closed: it takes credits or refunds that the open month "
                f"{before[0]} may take; close {before[0]} first"
            )


def _report_problems(bill: Bill, *, fails: bool) -> None:
    text = f"{bill.month} is billed except for {_shown(bill.problems)}"
    if fails:
        raise BilledWithProblems(text)
    _LOG.error("billing-problem: %s", text)


def _shown(problems: Sequence[str]) -> str:
    more = len(problems) - _PROBLEMS_SHOWN
    shown = "; ".join(problems[:_PROBLEMS_SHOWN])
    return shown + (f"; and {more:,} more" if more > 0 else "")


BILLING: Final = Billing()
