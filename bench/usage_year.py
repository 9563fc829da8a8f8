"""Cost per row and memory of ``talos bill reconcile`` and ``billing`` as usage grows to a year.

    python -m bench.usage_year ROWS FOLDER

Usage is that of 2,000 partitions with records in every minute, a Parquet file per hour as written
by ``metering``: a year has 1,051,200,000 rows. It is reconciled at 1 million, 10 million and so on
up to ROWS, with logs that have expired, as most of a year has; of the first size also with logs
that have all, so every minute is compared. Logs are answered by this process, without a network.
The bill is that of January, at most 89,280,000 rows. Each figure is of a process of its own.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil
import pyarrow as pa

from bench.peak_memory import java_peak_mb, peak_mb
from opentalos.pipelines.billing.reconcile import reconcile_with
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.periods.month import Month
from opentalos.pipelines.lake.tables import HOUR_MS, HourTable
from opentalos.pipelines.metering.usage_table import LAYOUT, SCHEMA

PARTITIONS: Final = 2_000
PER_TOPIC: Final = 4
MINUTES: Final = 60  # of an hour
JANUARY: Final = Month(2026, 1)
BEGIN_MS: Final = JANUARY.begin_ms
FIRST_ROWS: Final = 1_000_000
GROWTH: Final = 10
JOB_S: Final = 3_600.0
ROOT: Final = Path(__file__).resolve().parent.parent
PAGE_HOURS: Final = 24  # of a log
RECORD_BYTES: Final = 137
_MINUTE_MS: Final = 60_000
_TEXTS: Final = ("tenant", "topic", "name")


def records_per_minute(partition: int) -> int:
    """Of a partition by its number; any two minutes of it differ in their offsets only."""
    return 100 + partition % 1_000


def topic_of(partition: int) -> str:
    """The uuid of the topic of a partition by its number."""
    return f"{partition // PER_TOPIC:032x}"


def make_usage(home: Path, hours: range) -> None:
    """Write these hours of contiguous usage."""
    number = np.repeat(np.arange(PARTITIONS), MINUTES)
    minute = np.tile(np.arange(MINUTES), PARTITIONS)
    records = np.array([records_per_minute(item) for item in number.tolist()])
    topics = pa.array([topic_of(item) for item in number.tolist()])
    columns = dict.fromkeys(_TEXTS, topics) | {
        "partition": pa.array(number % PER_TOPIC, pa.int32()),
        "records": records, "bytes": records * RECORD_BYTES,
    }  # fmt: skip
    table = HourTable(home, "usage", SCHEMA)
    for hour in hours:
        first = (hour * MINUTES + minute) * records
        at = (BEGIN_MS + hour * HOUR_MS + minute * _MINUTE_MS) * 1_000
        fresh = {"minute": pa.array(at, pa.timestamp("us", "UTC")),
                 "first_offset": first, "next_offset": first + records}  # fmt: skip
        table.replace(BEGIN_MS + hour * HOUR_MS, pa.table(columns | fresh))


class Logs:
    """A server's answers about the logs of ``make_usage``. ``kept``: hours that have not expired.

    As a server, it counts the bytes of headers, which the table has not.
    """

    def __init__(self, hours: int, kept: int) -> None:
        self._hours, self._kept = hours, kept

    def __call__(self, method: str, path: str, *, query: Mapping[str, Any]) -> Any:
        """Answer as REST does."""
        if path == "topics":
            topics = range(0, PARTITIONS, PER_TOPIC)
            names = [{"name": topic_of(item), "owner": "t", "resource": f"t#n#{topic_of(item)}"}
                     for item in topics]  # fmt: skip
            return {"topics": names}
        uuid = path.split("/")[1].rpartition("%23")[2]
        partition = int(uuid, 16) * PER_TOPIC + query["partition"]
        records = records_per_minute(partition)
        first, end = (self._hours - self._kept) * MINUTES, self._hours * MINUTES
        begin = max(first, query["offset"] // records)
        stop = min(end, begin + query.get("minutes_max", PAGE_HOURS * MINUTES))
        minutes = [
            {"minute_ms": BEGIN_MS + minute * _MINUTE_MS, "records": records,
             "bytes": records * RECORD_BYTES, "first_offset": minute * records,
             "next_offset": (minute + 1) * records}
            for minute in range(begin, stop)
        ]  # fmt: skip
        return {
            "topic": uuid, "name": uuid, "tenant": "t", "partition": query["partition"],
            "partitions": PER_TOPIC, "start_offset": first * records, "next_offset": end * records,
            "metered_offset": end * records, "metered_since": 0,
            "total_bytes": 2 * end * records * RECORD_BYTES, "minutes": minutes,
            "next_page": stop * records if stop < end else None,
        }  # fmt: skip


def reconcile(home: Path, hours: int, kept: int) -> str:
    """Reconcile all; what was compared."""
    server: Any = Logs(hours, kept)
    found = reconcile_with(server, pipeline_table(home, "", LAYOUT))
    assert found.difference == found.pending == 0
    assert len(found.partitions) == PARTITIONS
    minutes = sum(result.minutes_compared for result in found.partitions)
    assert minutes == PARTITIONS * MINUTES * kept
    return f"{minutes:,} minutes compared with logs"


def billing(home: Path, _hours: int, _kept: int) -> str:
    """Bill January in Spark; the peak of Java."""
    from bench.billing_figures import PLAN  # Spark is not loaded for the other job
    from opentalos.pipelines.billing.pipeline import BILLING
    from opentalos.pipelines.pipeline import PipelineSettings
    from opentalos.pipelines.session import open_session

    plans = home / "plans"
    plans.mkdir(exist_ok=True)
    (plans / "standard.toml").write_text(PLAN)
    conf = {"spark.driver.memory": "1g", "spark.local.dir": str(home / "spark")}
    spark = open_session("billing-year", master="local[2]", conf=conf)
    try:
        options = {"plans": str(plans), "default-plan": "standard", "month": str(JANUARY)}
        BILLING.run(spark, PipelineSettings(url="", key="", home=home, options=options))
        return f"Java {java_peak_mb(spark):.0f} MB, {_cpu_s():.1f} s of CPU with its start"
    finally:
        spark.stop()


JOBS: Final = {"reconcile": reconcile, "billing": billing}


def _cpu_s() -> float:
    """CPU seconds of this process and those that it started."""
    me = psutil.Process()
    times = [process.cpu_times() for process in (me, *me.children(recursive=True))]
    return sum(spent.user + spent.system for spent in times)


def _job(name: str, home: Path, hours: int, kept: int) -> None:
    billed = (JANUARY.end_ms - JANUARY.begin_ms) // HOUR_MS
    rows = PARTITIONS * MINUTES * (hours if name == "reconcile" else min(hours, billed))
    began, cpu_s = time.perf_counter(), _cpu_s()
    what = JOBS[name](home, hours, kept)
    took_s, cpu_s = time.perf_counter() - began, _cpu_s() - cpu_s
    cpu = f"{cpu_s / rows * 1e6:.2f} us/row of CPU, " if name == "reconcile" else ""
    print(f"{name}: {rows:,} rows, {cpu}{took_s:.1f} s, peak {peak_mb():.0f} MB; {what}",
          flush=True)  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; there is no goal."""
    parser = argparse.ArgumentParser(description="cost per row of a year of usage")
    parser.add_argument("rows", type=int, metavar="ROWS")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--job", choices=list(JOBS), help=argparse.SUPPRESS)
    parser.add_argument("--hours", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--kept", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.job:
        _job(given.job, given.folder, given.hours, given.kept)
        return 0
    rows, made = min(FIRST_ROWS, given.rows), 0
    while True:
        hours = -(-rows // (PARTITIONS * MINUTES))
        make_usage(given.folder, range(made, hours))
        made = hours
        for job, kept in (("reconcile", hours), ("reconcile", 0), ("billing", 0)):
            if not kept or rows <= FIRST_ROWS:
                _apart(given.folder, job, hours, kept)
        if rows >= given.rows:
            return 0
        rows = min(rows * GROWTH, given.rows)


def _apart(folder: Path, job: str, hours: int, kept: int) -> None:
    command = [sys.executable, "-m", "bench.usage_year", "0", str(folder), "--job", job]
    options = ["--hours", str(hours), "--kept", str(kept)]
    subprocess.run([*command, *options], cwd=ROOT, timeout=JOB_S, check=True)


if __name__ == "__main__":
    sys.exit(main())
