"""The program that is killed: copies one topic into another through Spark.

usage: python -m tests.spark.kills.copy_topic URL KEY SOURCE TARGET   (the folder: FOLDER_VARIABLE)
"""

import os
import sys
from pathlib import Path

from tests.spark.java_classes import quick_java
from tests.spark.kills.pausing_sink import FOLDER_VARIABLE, PausingDataSource
from tests.spark.queries import started

from opentalos.pipelines.session import open_session

ROWS_OF_BATCH = 1_000
TASKS = 2


def main(url: str, key: str, source: str, target: str) -> None:
    """Until it is killed; with a file ``once`` in the folder until nothing is left."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    # Four attempts of a task: local mode has only one by default.
    conf = {"spark.local.dir": str(folder / "local"), "spark.sql.shuffle.partitions": str(TASKS)}
    conf |= quick_java()
    spark = open_session("copy", master=f"local[{TASKS},4]", conf=conf)
    spark.dataSource.register(PausingDataSource)
    server = {"url": url, "key": key}
    read = spark.readStream.format("talos").options(**server, topic=source)
    rows = read.option("maxMessagesPerTrigger", ROWS_OF_BATCH).load()
    # One task reads, so that the rows of a key reach their task in one order.
    copied = rows.repartition(TASKS, "key").selectExpr("key", "concat(value, '!') AS value")
    write = copied.writeStream.format("talos").options(**server, topic=target)
    write = write.option("checkpointLocation", str(folder / "checkpoint")).queryName("copy")
    once = (folder / "once").exists()
    write = write.trigger(availableNow=True) if once else write.trigger(processingTime="0 seconds")
    started(write.start).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:5])
