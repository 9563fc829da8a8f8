"""A stream over one of the service's own topics, for the pipelines monitoring and metering."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame

from opentalos.model.errors import ConfigError
from opentalos.pipelines.batch_description import described
from opentalos.pipelines.driver_place import checkpoint_of
from opentalos.pipelines.pipeline import PipelineSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

ON_EXPIRED: Final = "on-expired"  # the option of such a pipeline
_EXPIRED: Final = ("fail", "skip")


@dataclass(frozen=True, slots=True)
class ServiceTopic:
    """The input of a pipeline. Its progress is committed to ``group``, so its lag is visible."""

    pipeline: str
    topic: str
    group: str
    columns: str

    def start(
        self,
        spark: "SparkSession",
        settings: PipelineSettings,
        writer: Callable[[DataFrame, int], None],
    ) -> "StreamingQuery":
        """Pass every batch of messages to ``writer``; a failed batch is repeated.

        Raises: ConfigError: the option ``on-expired`` is invalid, or as ``checkpoint_of``.
        """
        expired = settings.options.get(ON_EXPIRED, _EXPIRED[0])
        if expired not in _EXPIRED:
            choices = " or ".join(_EXPIRED)
            raise ConfigError(f"{ON_EXPIRED} is {expired!r}: choose {choices}")
        messages = (
            spark.readStream.format("talos")
            .option("url", settings.url)
            .option("key", settings.key)
            .option("topic", self.topic)
            .option("columns", self.columns)
            .option("startingPosition", "earliest")
            .option("group", self.group)
            .option("onExpired", expired)
            .options(**limits(settings, spark.sparkContext.defaultParallelism))
            .load()
        )
        checkpoint = checkpoint_of(spark, settings, self.pipeline)
        stream = (
            messages.writeStream.queryName(self.pipeline)
            .outputMode("update")
            .foreachBatch(described(spark, self.pipeline, checkpoint, writer))
            .option("checkpointLocation", checkpoint)
        )
        if settings.available_now:
            return stream.trigger(availableNow=True).start()
        return stream.trigger(processingTime=f"{settings.trigger_s} seconds").start()


def limits(settings: PipelineSettings, tasks: int) -> dict[str, str]:
    """Options of the read that bound a batch.

    In a lake executors write the rows, so a batch grows with the tasks; below ``home`` the driver
    does, and the limit is that of one machine.

    Args: tasks: Spark's default parallelism, the cores of its executors.
    """
    if not settings.lake:
        return {"maxMessagesPerTrigger": str(settings.max_messages_per_trigger)}
    limit = settings.limit_of_trigger(tasks)
    return {"tasks": str(tasks), "maxMessagesPerTrigger": str(limit)}
