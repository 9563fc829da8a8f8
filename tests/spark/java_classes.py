"""An archive of Spark's Java classes, with which the sessions of tests start in half the time.

usage: python -m tests.spark.java_classes      (a job of the lane spark)

makes it below .cache, once for the installed Java and PySpark. Tests use it if it is there. Without
it a session costs 12 to 15 s of processor time, with it 7 s.
"""

import functools
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark
from tests.waiting import limit_s

from opentalos.adapters.java_home import lean_spark_home, spark_java_home

FOLDER = Path(__file__).resolve().parents[2] / ".cache" / "classes"
# Without the optimizing compiler a session costs half as much, and tests are over before it pays.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Spark's launcher has another class path, on which the archive is not used; Java would say so, on
# the standard output that the launcher's command is read from.
_SILENT = "-Xlog:disable -Xlog:all=error:stderr"
# What most sessions of the tests use: a shuffle, Parquet, and a query that streams.
_USE = """
import sys
from opentalos.pipelines.session import open_session
options, folder = sys.argv[1:]
conf = {"spark.driver.memory": "512m", "spark.driver.extraJavaOptions": options}
spark = open_session("classes", master="local[2]", conf=conf)
spark.range(10).selectExpr("id % 3 k").groupBy("k").count().write.parquet(f"{folder}/p")
spark.read.parquet(f"{folder}/p").createOrReplaceTempView("t")
spark.sql("select k, sum(count) over (partition by k) s from t order by s").collect()
stream = spark.readStream.format("rate").load().writeStream.format("noop")
stream = stream.option("checkpointLocation", f"{folder}/c").trigger(availableNow=True)
stream.start().awaitTermination()
java = spark.sparkContext._gateway
spark.stop()
java.shutdown()
java.proc.stdin.close()
java.proc.wait()  # it writes the archive when it ends
"""


def quick_options() -> str:
    """Options of a Java of Spark: a driver, an executor, a master or a worker."""
    made = _archive()
    return f"{QUICK} -XX:SharedArchiveFile={made} {_SILENT}" if made.exists() else QUICK


def quick_java() -> dict[str, str]:
    """Settings of a session that starts quickly."""
    return {"spark.driver.extraJavaOptions": quick_options()}


def quick_environment() -> dict[str, str]:
    """The same for a program that sets its session up by itself."""
    return {"JAVA_TOOL_OPTIONS": quick_options()}


@functools.cache
def _archive() -> Path:
    """Where the archive is, of this Java and these jars; Java ignores one that does not fit."""
    java = spark_java_home() / "bin" / "java"
    home = lean_spark_home(Path(pyspark.__path__[0]))
    named = [str(home), str(java), str(java.stat().st_mtime_ns)]
    jars = sorted(os.scandir(home / "jars"), key=lambda jar: jar.name)
    named += [f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in jars]
    return FOLDER / f"spark-{hashlib.sha256(repr(named).encode()).hexdigest()[:16]}.jsa"


def main() -> None:
    """Make the archive unless it is there; without it tests are slower and nothing else."""
    made = _archive()
    if made.exists():
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="classes-", dir=FOLDER) as folder:
        fresh = Path(folder) / "spark.jsa"
        command = [sys.executable, "-c", _USE, f"{QUICK} -XX:ArchiveClassesAtExit={fresh}", folder]
        status = subprocess.run(command, timeout=limit_s()).returncode
        if status == 0 and fresh.exists():
            fresh.replace(made)
        else:
            sys.stdout.write(f"| Spark's classes were not archived: exit status {status}\n")


if __name__ == "__main__":
    main()
