"""A user's program for spark-submit: writes rows to a topic; prints what its executors are.

usage: spark-submit sink_job.py URL KEY_FILE TOPIC FOLDER

Nothing of the tests can be imported where it runs. Task 0 waits in its first attempt, with some
rows stored, until it is killed.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

import opentalos
from opentalos.pipelines.session import open_session

ROW_BYTES = 1 << 20
ROWS = 35  # of task 0; task 1 has one
EARLY = 20  # more than a window of the sink


def rows(folder: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The rows of a task."""

    def batch(number: int) -> Any:
        text = b"%04d" % number + b"x" * (ROW_BYTES - 4)
        return pa.RecordBatch.from_pydict({"value": pa.array([text], pa.binary())})

    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for _ in batches:
            pass
        context = TaskContext.get()
        assert context is not None
        if context.partitionId():
            yield batch(ROWS)
            return
        for number in range(ROWS):
            yield batch(number)
            if number == EARLY and not context.attemptNumber():
                (folder / "begun").write_text(str(os.getpid()))
                signal.pause()

    return run


def where(_: object) -> dict[str, Any]:
    """What an executor's Python is."""
    return {
        "package": opentalos.__file__,
        "python": sys.executable,
        "folder": os.getcwd(),
        "path": sys.path,
        "environment": dict(os.environ),
    }


def main(url: str, key_file: str, topic: str, folder: str) -> None:
    """Write, then report."""
    spark = open_session("not the name: spark-submit has one")
    server = {"url": url, "keyFile": key_file, "topic": topic}
    frame = spark.range(0, 2, 1, 2).mapInArrow(rows(Path(folder)), "value binary")
    frame.write.format("talos").options(**server, blockMessages="5").mode("append").save()
    context = spark.sparkContext
    read = spark.read.format("talos").options(**server, columns="offset").load()
    facts = {
        "read": read.count(),
        "executors": context.parallelize(range(4), 4).map(where).collect(),
        "name": context.appName,
        "memory": context.getConf().get("spark.driver.memory"),
        "time_zone": spark.conf.get("spark.sql.session.timeZone"),
    }
    sys.stdout.write(json.dumps(facts) + "\n")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:5])
