"""Reading all chains of usage takes as much memory for many rows as for few."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.spark.kills.copying import ROOT
from tests.waiting import completed

from opentalos.pipelines.lake.tables import HOUR_MS, HourTable
from opentalos.pipelines.metering.usage_table import SCHEMA

PARTITIONS = 1_000
MINUTES = 60
FEW_HOURS, MANY_HOURS = 10, 60  # 3,600,000 rows, 530 MB as a table of Arrow
MORE_MB = 120.0  # what allocators keep
COUNT = """
import resource, sys
from pathlib import Path
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.metering.usage_chains import Floor, UsageChains
from opentalos.pipelines.metering.usage_table import LAYOUT
table, kept = pipeline_table(Path(sys.argv[1]), "", LAYOUT), Floor(0, 0)
floors = {(f"{number:032x}", 0): kept for number in range(int(sys.argv[2]))}
with UsageChains(table, floors=floors) as usage:
    found = sum(chain.records for bucket in usage.buckets() for chain in bucket.chains())
unit = 1 if sys.platform == "darwin" else 1024
print(found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6)
"""


def make(home: Path, hours: int) -> None:
    number = np.repeat(np.arange(PARTITIONS), MINUTES)
    minute = np.tile(np.arange(MINUTES), PARTITIONS)
    topics = pa.array([f"{item:032x}" for item in number])
    table = HourTable(home, "usage", SCHEMA)
    for hour in range(hours):
        first = hour * MINUTES + minute
        columns = {
            "tenant": topics, "topic": topics, "name": topics,
            "partition": pa.array(np.zeros(len(number)), pa.int32()),
            "minute": pa.array(first * 60_000_000, pa.timestamp("us", "UTC")),
            "records": np.ones(len(number), "int64"), "bytes": first,
            "first_offset": first, "next_offset": first + 1,
        }  # fmt: skip
        table.replace(hour * HOUR_MS, pa.table(columns))


def counted(home: Path) -> tuple[int, float]:
    """Records, one of each row, and the most memory of the process that counted them, in MB."""
    command = [sys.executable, "-c", COUNT, str(home), str(PARTITIONS)]
    done = completed(command, cwd=ROOT, check=True)
    rows, peak_mb = done.stdout.splitlines()[-1].split()
    return int(rows), float(peak_mb)


def test_memory_does_not_grow_with_the_table(tmp_path: Path) -> None:
    make(tmp_path / "few", FEW_HOURS)
    make(tmp_path / "many", MANY_HOURS)
    few_rows, few_mb = counted(tmp_path / "few")
    many_rows, many_mb = counted(tmp_path / "many")
    assert (few_rows, many_rows) == tuple(
        PARTITIONS * MINUTES * hours for hours in (FEW_HOURS, MANY_HOURS)
    )
    assert many_mb < few_mb + MORE_MB
