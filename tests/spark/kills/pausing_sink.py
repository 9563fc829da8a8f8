"""``format("talos")`` whose sink does what a test asks for by files in a folder."""

import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from opentalos.pipelines.datasource.data_source import TalosDataSource
from opentalos.pipelines.datasource.sink.options import WriteOptions, write_options
from opentalos.pipelines.datasource.sink.writers import TalosStreamWriter, Written

FOLDER_VARIABLE: Final = "TALOS_TEST_FOLDER"  # all processes of a driver inherit it
PAUSE_COMMIT: Final = "pause-commit"  # there: a commit says so and waits to be killed
FAIL_TASKS: Final = "fail-tasks"  # there: a task's first attempt fails once everything is stored


class PausingWriter(TalosStreamWriter):
    """Stops or fails at the points at which a crash would hurt most."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        super().__init__(options, schema)
        self._folder = Path(os.environ[FOLDER_VARIABLE])

    def write(self, iterator: Iterator[Any]) -> Written:
        written = super().write(iterator)
        context = TaskContext.get()
        assert context is not None
        if (self._folder / FAIL_TASKS).exists() and context.attemptNumber() == 0:
            (self._folder / f"failed-{time.time_ns()}").touch()
            raise RuntimeError("a task fails after its puts")
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        super().commit(messages, batchId)
        if (self._folder / PAUSE_COMMIT).exists():
            (self._folder / f"paused-{batchId}").touch()
            signal.pause()


class PausingDataSource(TalosDataSource):
    """Takes the place of the real one in the session of a test."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> PausingWriter:
        return PausingWriter(write_options(self.options), schema)
