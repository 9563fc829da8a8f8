"""A Spark session with the settings that pipelines need, and with ``format("talos")``.

Either this process starts its own Spark, or spark-submit has started this process. Then master,
name, memory and Python are those of the submission, and none of its settings is replaced but the
time zone.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from opentalos.adapters.java_home import (
    PYTHON_VARIABLE,
    lean_spark_home,
    spark_java_home,
    spark_python,
)
from opentalos.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISSING = "pipelines need PySpark: pip install 'opentalos[spark]'"
LOCAL: Final = "local[*]"
_NOTHING: Mapping[str, str] = MappingProxyType({})
_EPOCH = "opentalos.epoch"  # a local property, which the thread of a stream inherits
_LOOPBACK = "127.0.0.1"
_LOG_FILE = Path(__file__).with_name("log4j2.properties")
_STACK = "-Xss4m"  # Spark searches long errors with a recursive regular expression
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_PYTHON = "spark.pyspark.python"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"  # spark-submit sets it for the program that it runs
# Dates of the lake are those of UTC, whatever the defaults of a cluster are.
_ALWAYS = {"spark.sql.session.timeZone": "UTC"}
_UNLESS_SET = {
    "spark.ui.showConsoleProgress": "false",
    # Stopping a session does not wait indefinitely for a query that hangs.
    "spark.sql.streaming.stopTimeout": "10s",
    # A reused worker keeps its connections and imports from one trigger to the next.
    "spark.python.worker.reuse": "true",
    # Java gathers a batch for a Python worker in one buffer: 10,000 rows of 1 KiB took half as much
    # again of its processor time as pieces that fit in a cache.
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
    # Python workers keep the memory of a batch for the next one, at most 128 MiB, instead of taking
    # new pages from the system for each: a fifth of their processor time for messages of 1 KiB.
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(128 << 20),
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
    # Options of a query whose values no plan, page or event log shows; Spark's own has url only.
    "spark.sql.redaction.options.regex": "(?i)url|^key$|secret|password|token",
}
_OF_ONE_MACHINE = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    # Spark's own choice for a local disk starts six programs for each of the two files of a batch,
    # readlink four times and chmod twice; this one runs chmod only. Both check and then rename.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}


def open_session(
    app: str, *, master: str | None = None, conf: Mapping[str, str] = _NOTHING
) -> "SparkSession":
    """The session of this process; created if there is none.

    Times are UTC. ``conf`` overrides the defaults; Java options are added to them. On ``local``
    masters Python workers run this interpreter, on others that of PYSPARK_PYTHON, which must have
    the package opentalos.

    Args:   master: None: that of spark-submit, else ``local[*]``.
    Raises: ConfigError: PySpark, a supported Java or the workers' Python is missing; spark-submit
            has another master.
    """
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ConfigError(MISSING) from error
    if is_submitted():
        settings = _of_submission(master, conf)
    else:
        settings = _of_own_spark(Path(pyspark.__path__[0]), app, master or LOCAL, conf)
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    from opentalos.pipelines.datasource import TalosDataSource

    spark = builder.getOrCreate()
    spark.dataSource.register(TalosDataSource)
    return spark


def is_submitted() -> bool:
    """Whether spark-submit runs this process, so its Java exists already."""
    return _SUBMITTED in os.environ


def check_workers_python(master: str, python: str) -> str:
    """The Python of a cluster's executors, as a path there.

    Spark plans reads and writes of topics in the driver with the same path, so it has to exist
    where the driver runs, too. No path of the driver is taken for one of the executors.

    Raises: ConfigError: it is not named, or not there for the driver.
    """
    if not python:
        raise ConfigError(
            f"executors of {master} need a Python that has opentalos: set {PYTHON_VARIABLE} to its "
            "path on their machines, or ship one with --archives"
        )
    if shutil.which(python) is None:
        raise ConfigError(
            f"the driver has no {python}, and Spark plans reads with the Python of the executors; "
            f"start in the folder from which this path of {PYTHON_VARIABLE} is valid (now "
            f"{Path.cwd()})"
        )
    return python


def _of_own_spark(package: Path, app: str, master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """The settings of a Spark that this process starts, and its environment."""
    os.environ["JAVA_HOME"] = str(spark_java_home())
    settings = {"spark.app.name": app, "spark.master": master, **_UNLESS_SET, **_ALWAYS}
    if master.startswith("local"):
        os.environ[PYTHON_VARIABLE] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        os.environ.setdefault("SPARK_HOME", str(lean_spark_home(package)))
        settings |= _OF_ONE_MACHINE
        cores = str(_local_cores(master))
        settings["spark.sql.shuffle.partitions"] = cores
        # Else many files, such as those of a month's hours, are listed by a task for each.
        settings["spark.sql.sources.parallelPartitionDiscovery.parallelism"] = cores
    else:
        named = conf.get(_PYTHON) or spark_python()
        os.environ[PYTHON_VARIABLE] = check_workers_python(master, named)
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings |= conf
    options = f"-Dlog4j2.configurationFile={_LOG_FILE} {_STACK}"
    settings[_JAVA_OPTIONS] = f"{options} {conf.get(_JAVA_OPTIONS, '')}".strip()
    return settings


def _of_submission(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """What the submission leaves open. Its Java runs, so memory and Java options are settled."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # connects to that Java, whose properties SparkConf reads
    given = SparkConf()
    of_submission = given.get("spark.master", "") or ""
    if master is not None and master != of_submission:
        raise ConfigError(
            f"the master is {of_submission or 'not named'} by spark-submit and {master} here; "
            "give it to spark-submit only"
        )
    if of_submission.startswith("local"):
        os.environ.setdefault(PYTHON_VARIABLE, sys.executable)
    else:  # as PySpark has it
        check_workers_python(of_submission, spark_python("python3"))
    settings = {name: value for name, value in _UNLESS_SET.items() if not given.contains(name)}
    return {**settings, **_ALWAYS, **conf}


def _local_cores(master: str) -> int:
    """The number of concurrent tasks of ``local``, ``local[N]`` or ``local[*]``."""
    given = master.partition("[")[2].rstrip("]").partition(",")[0]
    return int(given) if given.isdigit() else (os.cpu_count() or 1) if given else 1


def epoch_of(spark: "SparkSession") -> int:
    """Epoch of the lease under which this thread's pipeline runs; 0: it has none."""
    return int(spark.sparkContext.getLocalProperty(_EPOCH) or 0)


def set_epoch(spark: "SparkSession", epoch: int) -> None:
    """Streams and batches that this thread starts from now on run under this epoch."""
    spark.sparkContext.setLocalProperty(_EPOCH, str(epoch))
