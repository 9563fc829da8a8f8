"""The most memory that a process has had."""

import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def peak_mb() -> float:
    """Of this process, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def java_peak_mb(spark: "SparkSession") -> float:
    """Of the driver's Java, in MB; Linux only."""
    machine: Any = spark.sparkContext._jvm
    pid = machine.java.lang.ProcessHandle.current().pid()
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise OSError(f"process {pid} has no VmHWM")
