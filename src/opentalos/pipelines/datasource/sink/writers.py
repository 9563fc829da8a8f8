"""``write`` and ``writeStream`` of ``format("talos")``, called by Spark in driver and tasks."""

import logging
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from opentalos.model.errors import ConfigError, TalosError
from opentalos.pipelines.datasource.connection import client_of
from opentalos.pipelines.datasource.sink.block_writer import Stored
from opentalos.pipelines.datasource.sink.columns import WriteColumns
from opentalos.pipelines.datasource.sink.identity import TaskFacts
from opentalos.pipelines.datasource.sink.options import WriteOptions
from opentalos.pipelines.datasource.sink.plan import WritePlan, plan_write
from opentalos.pipelines.datasource.sink.task import TOKEN_BYTES, WriteJob
from opentalos.pipelines.datasource.task_process import keep_imports_out_of_collections

# Local properties that Spark 4.3.0 sets for the tasks of a stream, also inside foreachBatch.
_QUERY_ID: Final = "sql.streaming.queryId"
_RUN_ID: Final = "spark.jobGroup.id"
_BATCH_ID: Final = "streaming.sql.batchId"
_SPECULATION: Final = "spark.speculation"

_log = logging.getLogger("opentalos.pipelines.sink")


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """A task's report to the driver."""

    stored: Sequence[Stored]

    @property
    def rows(self) -> int:
        """The number of rows stored."""
        return sum(stored.rows for stored in self.stored)


class TalosWriter(DataSourceArrowWriter):
    """A batch write: task retries store nothing twice; with a writeId, nor does another run.

    Raises: ConfigError: a column is invalid, or the mode is overwrite; TopicNotExist.
    """

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError('a topic cannot be overwritten; use mode("append")')
        self._job = _job(options, schema, streaming=False)
        if isinstance(self._job.plan, TalosError):
            raise self._job.plan

    def write(self, iterator: Iterator[Any]) -> Written:
        """In a task: store its rows."""
        return _written(self._job, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """In the driver: all rows are already stored."""
        _log.info("write committed: rows=%d", _rows(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """In the driver: some tasks failed after all retries."""
        again = "none" if self._job.options.write_id else "all"
        _log.warning("%s", aborted("the write", messages, again))


class TalosStreamWriter(DataSourceStreamArrowWriter):
    """The sink of a stream: stores each batch once, also if it is repeated after a restart.

    Spark creates an instance for every batch, and another one to commit it. Raises: ConfigError: a
    column is invalid.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        # Errors of servers are raised in the tasks: committing a stored batch needs no server.
        self._job = _job(options, schema, streaming=True)

    def write(self, iterator: Iterator[Any]) -> Written:
        """In a task: store its rows."""
        return _written(self._job, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """In the driver: all rows are already stored."""
        _log.info("batch committed: batch=%d rows=%d", batchId, _rows(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """In the driver: some tasks failed after all retries."""
        _log.warning("%s", aborted(f"batch {batchId}", messages, "none"))


def _written(job: WriteJob, iterator: Iterator[Any]) -> Written:
    stored = job.store(iterator, task_facts())
    keep_imports_out_of_collections()
    return Written(stored)


def task_facts() -> TaskFacts:
    """Spark's facts about the task that runs here."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("rows can only be written in a Spark task")
    batch = context.getLocalProperty(_BATCH_ID)
    return TaskFacts(
        task=context.partitionId(),
        attempt=context.attemptNumber(),
        speculation=context.getLocalProperty(_SPECULATION) == "true",
        query_id=context.getLocalProperty(_QUERY_ID) or "",
        run_id=context.getLocalProperty(_RUN_ID) or "",
        batch_id=-1 if batch is None else int(batch),
    )


def _job(options: WriteOptions, schema: StructType, *, streaming: bool) -> WriteJob:
    columns = WriteColumns(
        schema, topic_option=bool(options.topic), ignore_metadata=options.ignore_metadata
    )
    return WriteJob(
        options=options,
        columns=columns,
        plan=_plan(options),
        streaming=streaming,
        token=secrets.token_hex(TOKEN_BYTES),
    )


def _plan(options: WriteOptions) -> WritePlan | TalosError:
    try:
        return client_of(options.config).run(lambda client: plan_write(client, options))
    except TalosError as error:
        return error


def _rows(messages: Sequence[WriterCommitMessage | None]) -> int:
    return sum(message.rows for message in messages if isinstance(message, Written))


def aborted(what: str, messages: Sequence[WriterCommitMessage | None], again: str) -> str:
    """The text of a warning. ``again``: how many rows a second write would store twice."""
    done = sum(message is not None for message in messages)
    return (
        f"{what} failed: {_rows(messages)} rows of {done} tasks are stored, and possibly some of "
        f"{len(messages) - done} other tasks; writing the same rows again stores {again} of them "
        "twice"
    )
