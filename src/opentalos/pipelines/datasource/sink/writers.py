"""``write`` and ``writeStream`` of ``format("talos")``."""

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

# Local properties that Spark 4.3.0 gives the tasks of a stream, also inside foreachBatch.
_QUERY_ID: Final = "sql.streaming.queryId"
_RUN_ID: Final = "spark.jobGroup.id"
_BATCH_ID: Final = "streaming.sql.batchId"
_SPECULATION: Final = "spark.speculation"

_log = logging.getLogger("opentalos.pipelines.sink")


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """What a task tells the driver."""

    stored: Sequence[Stored]

    @property
    def rows(self) -> int:
        """That it has stored."""
        return sum(stored.rows for stored in self.stored)


class TalosWriter(DataSourceArrowWriter):
    """A batch write: task retries store nothing twice; with a writeId, neither does another run.

    Raises: ConfigError: a column cannot be used, or the mode is overwrite; TopicNotExist.
    """

    def __init__(self, options: WriteOptions, schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ConfigError('a topic cannot be overwritten; use mode("append")')
        self._job = _job(options, schema, streaming=False)
        if isinstance(self._job.plan, TalosError):
            raise self._job.plan

    def write(self, iterator: Iterator[Any]) -> Written:
        """In a task: store its rows."""
        return Written(self._job.store(iterator, task_facts()))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """In the driver: everything is stored already."""
        _log.info("%d rows are stored", _rows(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """In the driver: some tasks failed for good."""
        again = "none" if self._job.options.write_id else "all"
        _log.warning("%s", aborted("the write", messages, again))


class TalosStreamWriter(DataSourceStreamArrowWriter):
    """The sink of a stream: each batch once, also if it is written again after a restart from the
    checkpoint.

    Spark makes one for every batch, and another one to commit it. Raises: ConfigError: a column
    cannot be used.
    """

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        # What the servers refuse, tasks raise: a commit of what is stored needs no server.
        self._job = _job(options, schema, streaming=True)

    def write(self, iterator: Iterator[Any]) -> Written:
        """In a task: store its rows."""
        return Written(self._job.store(iterator, task_facts()))

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """In the driver: everything is stored already."""
        _log.info("batch %d: %d rows are stored", batchId, _rows(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """In the driver: some tasks failed for good."""
        _log.warning("%s", aborted(f"batch {batchId}", messages, "none"))


def task_facts() -> TaskFacts:
    """What Spark says of the task that runs here."""
    context = TaskContext.get()
    if context is None:
        raise RuntimeError("rows are written by tasks of Spark")
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
    columns = WriteColumns(schema, topic_option=bool(options.topic))
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
    """Text of a warning. ``again``: how many rows a second try would store twice."""
    done = sum(message is not None for message in messages)
    return (
        f"{what} failed: {_rows(messages)} rows of {done} tasks are stored and stay, and maybe "
        f"some of {len(messages) - done} other tasks; the same rows written again store {again} of "
        "them twice"
    )
