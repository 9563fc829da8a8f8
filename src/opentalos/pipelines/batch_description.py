"""What Spark's page says of a stream's jobs: the rows of their batch, and the lag before it.

A Python data source cannot add metrics to those that Spark shows (4.3), but every job has a
description. Spark's own names the query and the batch; it is replaced for the jobs of the writer.
"""

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError

from opentalos.model.errors import TalosError
from opentalos.pipelines.archive.hadoop_files import HadoopFiles
from opentalos.pipelines.datasource.source.batch_range import BatchRange
from opentalos.pipelines.runtime.progress import progress_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG: Final = logging.getLogger(__name__)
_EVENT_LOG: Final = "spark.eventLog.enabled"
Writer = Callable[["DataFrame", int], None]  # for ``foreachBatch``


def described(spark: "SparkSession", pipeline: str, checkpoint: str, writer: Writer) -> Writer:
    """The writer of the query ``pipeline``, whose jobs say what they are for, unless neither a page
    nor a log shows jobs: finding out takes time before each batch.

    Args: spark: the session that starts the query; that of the batch is a copy without it.
    """
    if not _are_shown(spark):
        return writer

    def write(messages: "DataFrame", batch_id: int) -> None:
        # In this thread of Spark's, which sets its own description for the next batch.
        spark.sparkContext.setJobDescription(_text(spark, pipeline, checkpoint, batch_id))
        writer(messages, batch_id)

    return write


def description(pipeline: str, batch_id: int, rows: int, lag: int | None) -> str:
    """One line. ``lag``: messages after the end of the previous batch; None if not known yet."""
    before = "" if lag is None else f", lag {lag:,} before it"
    return f"{pipeline}: batch {batch_id}, {rows:,} rows{before}"


def rows_of(offsets: str) -> int:
    """Messages of a batch, from its file of the checkpoint's log of offsets.

    Shape: a version, a line of metadata, and a line for each source. Raises: ValueError.
    """
    documents: list[Any] = [
        json.loads(line) for line in offsets.splitlines() if line.startswith("{")
    ]
    batches = [BatchRange.parse(item) for item in documents if "begin" in item]
    return sum(span.rows for batch in batches for span in batch.ranges)


def _are_shown(spark: "SparkSession") -> bool:
    """Whether jobs are on a page or in a log of events."""
    context = spark.sparkContext
    return context.uiWebUrl is not None or context.getConf().get(_EVENT_LOG, "") == "true"


def _text(spark: "SparkSession", pipeline: str, checkpoint: str, batch_id: int) -> str:
    try:
        rows = rows_of(HadoopFiles(spark, checkpoint).read(f"{checkpoint}/offsets/{batch_id}"))
        queries = (query for query in spark.streams.active if query.name == pipeline)
        report = next((query.lastProgress for query in queries), None)
        lag = None if report is None else progress_of(pipeline, report).lag
    except (Py4JError, TalosError, ValueError) as error:  # no reason to fail the batch
        _LOG.debug("cannot describe batch %d of %s: %s", batch_id, pipeline, error)
        return f"{pipeline}: batch {batch_id}"
    return description(pipeline, batch_id, rows, lag)
