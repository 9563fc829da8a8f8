"""Compares what a batch has written with its offsets in the checkpoint."""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from opentalos.pipelines.archive.batch_rows import WrittenRows, check_rows, logged_batch
from opentalos.pipelines.archive.hadoop_files import HadoopFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger(__name__)


class BatchCheck(NamedTuple):
    """``checkpoint``: of the stream, which has the offsets; ``may_lack``: see ``check_rows``."""

    checkpoint: str
    may_lack: bool

    def check(self, spark: "SparkSession", batch_id: int, written: Iterable[WrittenRows]) -> None:
        """Raises: RowsMissing: the written rows are not the messages of the batch."""
        offsets = f"{self.checkpoint}/offsets/{batch_id}"
        batch = logged_batch(HadoopFiles(spark, self.checkpoint).read(offsets))
        lacking = check_rows(batch, written, may_lack=self.may_lack)
        if lacking:
            _LOG.warning("messages were gone before a read: batch=%d lost=%d", batch_id, lacking)
