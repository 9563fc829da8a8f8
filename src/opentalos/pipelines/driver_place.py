"""Where the driver runs: a cluster may start it on any machine, so its disk does not outlive it."""

from typing import TYPE_CHECKING, Final

from opentalos.model.errors import ConfigError
from opentalos.pipelines.lake.written_rows import check_shared
from opentalos.pipelines.pipeline import CHECKPOINT, PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DEPLOY_MODE: Final = "spark.submit.deployMode"
_IN_A_POD: Final = "spark.kubernetes.submitInDriver"  # in there the mode is client again
_STORES: Final = (
    "--olap delta+hdfs://HOST:PORT/PATH, --olap delta+s3://BUCKET/PATH, "
    "--olap druid://COORDINATOR_HOST:PORT,BROKER_HOST:PORT"
)
_SHARED: Final = "on a disk that all machines share"


def may_move(spark: "SparkSession") -> bool:
    """Whether the next driver may run on another machine: ``--deploy-mode cluster``."""
    conf = spark.sparkContext.getConf()
    return conf.get(_DEPLOY_MODE, "") == "cluster" or conf.get(_IN_A_POD, "") == "true"


def check_stays(spark: "SparkSession", what: str, give: str) -> None:
    """Return unless ``what``, which is below ``--home``, would be lost with the driver.

    Args:   give: the remedy.
    Raises: ConfigError.
    """
    if may_move(spark):
        raise ConfigError(
            f"{what} would be below --home, on the disk of a driver that may start on any machine; "
            f"give {give}, or run with --deploy-mode client"
        )


def checkpoint_of(spark: "SparkSession", settings: PipelineSettings, name: str) -> str:
    """Where Spark is to keep a pipeline's checkpoint.

    Raises: ConfigError: it would be lost with the driver.
    """
    if not settings.options.get(CHECKPOINT):
        option = f"-o {name}.{CHECKPOINT}"
        give = f"{option}=hdfs://HOST:PORT/PATH, or {option}=file:///PATH {_SHARED}"
        check_stays(spark, f"the checkpoint of {name}", give)
    return settings.checkpoint_url(name)


def check_rollups(spark: "SparkSession", settings: PipelineSettings) -> None:
    """Raises: ConfigError: the OLAP store would be lost with the driver, or executors would write
    to disks of their own."""
    if not settings.olap:
        give = f"{_STORES}, or --olap file:///PATH {_SHARED}"
        check_stays(spark, "the rollups", give)
        what = f"the OLAP store at {settings.home / 'olap'}"
        check_shared(what, str(spark.sparkContext.master), local=True, give=give)
