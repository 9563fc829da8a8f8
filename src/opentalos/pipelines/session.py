"""A Spark session with the settings that pipelines need, and with ``format("talos")``."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from opentalos.adapters.java_home import lean_spark_home, spark_java_home
from opentalos.model.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MISSING = "pipelines need PySpark: pip install 'opentalos[spark]'"
_NOTHING: Mapping[str, str] = MappingProxyType({})
_EPOCH = "opentalos.epoch"  # a local property, which the thread of a stream inherits
_LOOPBACK = "127.0.0.1"
_LOG_FILE = Path(__file__).with_name("log4j2.properties")
_STACK = "-Xss4m"  # Spark searches long errors with a recursive regular expression
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    # Stopping a session does not wait indefinitely for a query that hangs.
    "spark.sql.streaming.stopTimeout": "10s",
    # A reused worker keeps its connections and imports from one trigger to the next.
    "spark.python.worker.reuse": "true",
}


def open_session(
    app: str, *, master: str = "local[*]", conf: Mapping[str, str] = _NOTHING
) -> "SparkSession":
    """The session of this process; created if there is none.

    Python workers run the same interpreter; times are UTC. Machines of a Spark cluster need the
    package opentalos installed. ``conf`` overrides the defaults; Java options are added to them.

    Raises: ConfigError: PySpark or a supported Java is missing.
    """
    try:
        import pyspark
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ConfigError(MISSING) from error
    os.environ["JAVA_HOME"] = str(spark_java_home())
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    settings = dict(_CONF)
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        os.environ.setdefault("SPARK_HOME", str(lean_spark_home(Path(pyspark.__path__[0]))))
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = _LOOPBACK
        settings["spark.sql.shuffle.partitions"] = str(_local_cores(master))
    builder = SparkSession.builder.appName(app).master(master)
    settings |= conf
    options = f"-Dlog4j2.configurationFile={_LOG_FILE} {_STACK}"
    settings[_JAVA_OPTIONS] = f"{options} {conf.get(_JAVA_OPTIONS, '')}".strip()
    for name, value in settings.items():
        builder = builder.config(name, value)
    from opentalos.pipelines.datasource import TalosDataSource

    spark = builder.getOrCreate()
    spark.dataSource.register(TalosDataSource)
    return spark


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
