"""The command ``talos`` with one more pipeline: ``copy``, a topic into another one.

Its rows pass a shuffle, so an executor that is killed takes some of them with it.
"""

import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from opentalos.cli.main import main
from opentalos.pipelines.pipeline import PipelineSettings
from opentalos.pipelines.registry import PIPELINES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TASKS: Final = 2


class Copy:
    """A stream of a topic into another, with one character more per message."""

    name = "copy"
    about = "a topic into another one"
    options: Mapping[str, str] = MappingProxyType({"source": "topic", "target": "topic"})

    def start(self, spark: "SparkSession", settings: PipelineSettings) -> "StreamingQuery":
        """Start the stream."""
        server = {"url": settings.url, "key": settings.key}
        read = spark.readStream.format("talos").options(
            **server,
            topic=settings.options["source"],
            tasks="1",  # so that a repeated task gets the rows of a key in the same order
            maxMessagesPerTrigger=str(settings.max_messages_per_trigger),
        )
        rows = read.load().repartition(TASKS, "key")
        copied = rows.selectExpr("key", "concat(value, '!') AS value")
        write = copied.writeStream.format("talos").options(
            **server, topic=settings.options["target"]
        )
        write = write.option("checkpointLocation", settings.checkpoint_url(self.name))
        write = write.queryName(self.name)
        return write.trigger(processingTime=f"{settings.trigger_s} seconds").start()


COPY: Final = Copy()

if __name__ == "__main__":
    PIPELINES[Copy.name] = "tests.spark.kills.copy_pipeline:COPY"
    sys.argv[0] = "talos"
    main()
