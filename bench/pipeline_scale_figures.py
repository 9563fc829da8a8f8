"""Memory and cost per row of the pipelines as their tables grow.

    python -m bench.pipeline_scale_figures [--quick]

Usage is laid out as by ``metering``: a Parquet file per hour, 10,000 partitions, contiguous
offsets. ``export`` and ``billing`` read one month, so their cost should not grow with the others.
``reconcile``, which takes all months, ``monitoring`` and ``replay`` are in modules of their own.
Each figure is of a process of its own, whose peak memory is measured; Java processes of Spark have
a heap of 1 GiB each.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from bench.peak_memory import java_peak_mb, peak_mb
from opentalos.pipelines.lake.layout import Span
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.lake.tables import HOUR_MS, HourTable
from opentalos.pipelines.metering.usage_lake import UsageLake
from opentalos.pipelines.metering.usage_table import LAYOUT, SCHEMA

ROOT: Final = Path(__file__).resolve().parent.parent
PARTITIONS: Final = 10_000
QUICK_PARTITIONS: Final = 500
YEAR: Final = 2026
HOURS_APART: Final = 24  # an hour of usage per day
SIZES: Final = ((1, 6), (4, 6), (12, 6), (12, 30))  # months, minutes of an hour of each partition
QUICK_SIZES: Final = ((1, 6), (2, 6))
YEAR_ROWS: Final = 100_000_000  # of usage that is reconciled
QUICK_YEAR_ROWS: Final = 1_000_000
RECORDS: Final = 10_000_000  # of a table whose stream is replayed
QUICK_RECORDS: Final = 200_000
BUSY: Final = (1_000, 10_000)  # partitions that are measured
QUICK_BUSY: Final = (100,)
HEAP: Final = "1g"
_JOB_S: Final = 3000.0


def make_usage(home: Path, partitions: int, months: int, minutes: int) -> int:
    """Usage of the first months of a year; the number of rows."""
    begin, end = Month(YEAR, 1).begin_ms, Month(YEAR, months).end_ms
    number = np.repeat(np.arange(partitions), minutes)
    minute = np.tile(np.arange(minutes), partitions)
    names = pa.array([f"topic-{item // 4:06}" for item in number])
    table, made = HourTable(home, "usage", SCHEMA), 0
    for index, hour_ms in enumerate(range(begin, end, HOURS_APART * HOUR_MS)):
        first = (index * minutes + minute) * 100
        at = hour_ms * 1_000 + minute * 60_000_000
        columns = {
            "tenant": names, "topic": names, "name": names,
            "partition": pa.array(number % 4, pa.int32()),
            "minute": pa.array(at, pa.timestamp("us", "UTC")),
            "records": np.full(len(number), 100), "bytes": np.full(len(number), 13_700),
            "first_offset": first, "next_offset": first + 100,
        }  # fmt: skip
        table.replace(hour_ms, pa.table(columns))
        made += len(number)
    return made


def export(home: Path, _count: int) -> int:
    """Read the first month; the number of rows."""
    month = Month(YEAR, 1)
    with UsageLake(pipeline_table(home, "", LAYOUT), Span(month.begin_ms, month.end_ms)) as usage:
        return sum(rows.num_rows for rows in usage.rows())


def billing(home: Path, _count: int) -> int:
    """Invoices of the first month in Spark, with a heap of 1 GiB for driver and executor."""
    from bench.billing_figures import PLAN  # Spark is not loaded for the other jobs
    from opentalos.pipelines.billing.pipeline import BILLING
    from opentalos.pipelines.pipeline import PipelineSettings
    from opentalos.pipelines.session import open_session

    month = Month(YEAR, 1)
    plans = home / "plans"
    plans.mkdir(exist_ok=True)
    (plans / "standard.toml").write_text(PLAN)
    conf = {"spark.driver.memory": HEAP, "spark.local.dir": str(home / "spark")}
    spark = open_session("billing-scale", master="local[2]", conf=conf)
    options = {"plans": str(plans), "default-plan": "standard", "month": str(month)}
    BILLING.run(spark, PipelineSettings(url="", key="", home=home, options=options))
    print(f"billing: Java {java_peak_mb(spark):.0f} MB with a heap of {HEAP}", flush=True)
    spark.stop()
    usage = pipeline_table(home, "", LAYOUT).scan(Span(month.begin_ms, month.end_ms))
    return int(usage.count_rows())


JOBS: Final[dict[str, Callable[[Path, int], int]]] = {
    "export": export,
    "billing": billing,
}


def _job(name: str, home: Path, count: int) -> None:
    before = peak_mb()
    began = time.perf_counter()
    rows = JOBS[name](home, count)
    took_s = time.perf_counter() - began
    print(f"{name}: {rows:,} rows, {took_s:.1f} s, {took_s / rows * 1e6:.2f} us/row, "
          f"peak {peak_mb():.0f} MB ({before:.0f} MB before)", flush=True)  # fmt: skip


def _apart(name: str, home: Path, count: int) -> None:
    command = [sys.executable, "-m", "bench.pipeline_scale_figures"]
    given = ["--job", name, "--home", str(home), "--count", str(count)]
    subprocess.run([*command, *given], cwd=ROOT, timeout=_JOB_S, check=True)


def _module(name: str, count: int) -> None:
    """Run a module with a size and a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", name, str(count), folder]
        subprocess.run(command, cwd=ROOT, timeout=_JOB_S, check=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; there is no goal."""
    parser = argparse.ArgumentParser(description="cost per row of usage, and memory of a replay")
    parser.add_argument("--quick", action="store_true", help="fewer rows")
    parser.add_argument("--job", choices=list(JOBS), help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.job:
        _job(given.job, given.home, given.count)
        return 0
    partitions = QUICK_PARTITIONS if given.quick else PARTITIONS
    for months, minutes in QUICK_SIZES if given.quick else SIZES:
        with tempfile.TemporaryDirectory() as folder:
            rows = make_usage(Path(folder), partitions, months, minutes)
            print(f"months: {months}, partitions: {partitions:,}, rows: {rows:,}", flush=True)
            for name in JOBS:
                _apart(name, Path(folder), rows)
    _module("bench.usage_year", QUICK_YEAR_ROWS if given.quick else YEAR_ROWS)
    for count in QUICK_BUSY if given.quick else BUSY:
        _module("bench.monitoring_scale", count)
    _module("bench.replay_scale", QUICK_RECORDS if given.quick else RECORDS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
