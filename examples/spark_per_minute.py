"""Counts the messages of a topic per minute and key into another topic, exactly once, and stores
them as Parquet. Needs opentalos[spark] and Java 17 or newer.

usage: TALOS_URL=... TALOS_KEY=ID:SECRET spark_per_minute.py SOURCE TARGET FOLDER [--now]

Both queries resume from FOLDER/checkpoints, also after a kill -9. A failure that passes restarts
the query; another one ends the program, which can be started again. With --now they stop after
processing what is in SOURCE now. Show their lag with: talos group describe SOURCE spark-per-minute
"""

import sys
import time
from collections import Counter

from pyspark.sql import functions as F

from opentalos.pipelines.archive.batch_check import BatchCheck
from opentalos.pipelines.archive.pipeline import ArchiveWriter
from opentalos.pipelines.runtime.causes import cause_of
from opentalos.pipelines.session import open_session

LATE = "30 seconds"  # a minute is written when messages so much younger than its end were seen
LOOK_S = 0.5  # between two looks whether a query ended
RESTARTS_MAX = 5  # of one query in one run


def read(spark, topic, group):
    return (
        spark.readStream.format("talos")
        .option("topic", topic)
        .option("group", group)
        .option("maxMessagesPerTrigger", 500_000)
        .load()
    )


def per_minute(messages):
    counts = (
        messages.withWatermark("create_time", LATE)
        .groupBy(F.window("create_time", "1 minute"), "key")
        .agg(F.count("*").alias("messages"), F.sum(F.length("value")).alias("bytes"))
    )
    row = F.struct(F.col("window.start").alias("minute"), "key", "messages", "bytes")
    return counts.select("key", F.to_json(row).alias("value"))


def write_to(target):
    """Stores each batch once: a batch that comes again has the same writeId, rows and order."""

    def write(counts, batch_id):
        query_id = counts.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        (
            counts.coalesce(1)
            .sortWithinPartitions("value")
            .write.format("talos")
            .mode("append")
            .option("topic", target)
            .option("writeId", f"{query_id}-{batch_id}")
            .save()
        )

    return write


def run(starts):
    """Runs queries until each has ended; one that failed for a reason that may pass, such as a
    machine too busy to start Python in the ten seconds that Spark allows, is started again."""
    running, restarts = {name: start() for name, start in starts.items()}, Counter()
    while running:
        time.sleep(LOOK_S)
        for name, query in list(running.items()):
            if query.isActive:
                continue
            error = query.exception()
            if error is None:
                print(name, "is done")
                del running[name]
                continue
            restarts[name] += 1
            if restarts[name] > RESTARTS_MAX or not cause_of(error).passing:
                raise error
            print(f"{name} starts again: {cause_of(error)}", file=sys.stderr)
            running[name] = starts[name]()


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    source, target, folder = sys.argv[1:4]
    now = "--now" in sys.argv
    trigger = {"availableNow": True} if now else {"processingTime": "10 seconds"}
    spark = open_session("per minute")
    checkpoints = f"{folder}/checkpoints"
    check = BatchCheck(f"{checkpoints}/archive", may_lack=False)
    archive = ArchiveWriter(f"{folder}/all", "zstd", check)
    starts = {}
    for name, rows, sink in (
        ("per-minute", per_minute(read(spark, source, "spark-per-minute")), write_to(target)),
        ("archive", read(spark, source, "spark-archive"), archive),
    ):
        writer = rows.writeStream.queryName(name).foreachBatch(sink).trigger(**trigger)
        starts[name] = writer.option("checkpointLocation", f"{checkpoints}/{name}").start
    run(starts)
    spark.stop()


if __name__ == "__main__":
    main()
