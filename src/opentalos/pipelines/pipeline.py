"""The interface of a pipeline, which the runner starts in a Spark session."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TRIGGER_S = 10.0
MESSAGES_PER_TRIGGER_MAX = 500_000
MESSAGES_PER_TASK_MAX = 250_000
CHECKPOINT = "checkpoint"  # an option of pipelines that may keep it elsewhere
CHECKPOINT_AT = "folder or hdfs://HOST:PORT/PATH; default: below --home, on this machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Settings of a run; ``options`` are those of one pipeline, by its own names.

    Below ``home``: checkpoints/NAME, lake/TABLE, olap, side/NAME, invoices. With a ``lake``, TABLE
    and side/NAME are below it.
    """

    url: str  # http://HOST:PORT
    key: str  # KEYID:SECRET of an administrator, who may read the system topics
    home: Path
    lake: str = ""  # "": Parquet below home; delta+hdfs://HOST:PORT/PATH, delta+s3://BUCKET/PATH
    olap: str = ""  # "": Parquet below home/olap; or a URL of ``open_olap``
    trigger_s: float = TRIGGER_S
    available_now: bool = False  # stop after the messages that exist at the start
    max_messages_per_trigger: int = MESSAGES_PER_TRIGGER_MAX
    messages_per_task: int = 0  # of a batch, for pipelines whose rows do not pass the driver
    options: Mapping[str, str] = field(default_factory=dict)

    def checkpoint(self, name: str) -> Path:
        """The folder of a stream's Spark checkpoint."""
        return self.home / "checkpoints" / name

    def limit_of_trigger(self, tasks: int) -> int:
        """The limit for a pipeline whose rows do not pass the driver: it grows with the tasks."""
        return max(self.max_messages_per_trigger, self.messages_per_task * tasks)

    def checkpoint_url(self, name: str) -> str:
        """Where Spark is to keep it: below ``home``, or where the pipeline's option says."""
        given = self.options.get(CHECKPOINT, "").rstrip("/")
        return given or on_this_machine(self.checkpoint(name))


def on_this_machine(path: Path) -> str:
    """The path for Spark, which takes a plain one for one of the cluster's default file system."""
    return f"file://{path.absolute()}"


class Pipeline(Protocol):
    """Common to streams and batches; ``options``: descriptions of the options by name."""

    @property
    def name(self) -> str: ...
    @property
    def about(self) -> str: ...  # one line for people
    @property
    def options(self) -> Mapping[str, str]: ...


@runtime_checkable
class StreamPipeline(Pipeline, Protocol):
    """A pipeline that runs continuously. ``start``: ConfigError if an option is invalid."""

    def start(self, spark: "SparkSession", settings: PipelineSettings) -> "StreamingQuery": ...


@runtime_checkable
class BatchPipeline(Pipeline, Protocol):
    """A pipeline that ends; the runner may repeat it. ``run``: ConfigError as for ``start``."""

    def run(self, spark: "SparkSession", settings: PipelineSettings) -> None: ...
