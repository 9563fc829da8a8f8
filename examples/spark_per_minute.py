"""Counts the messages of a topic per minute and key into another topic, exactly once, and stores
them as Parquet. Needs opentalos[spark] and Java 17 or newer.

usage: TALOS_URL=... TALOS_KEY=ID:SECRET spark_per_minute.py SOURCE TARGET FOLDER [--now]

Both queries resume from FOLDER/checkpoints, also after a kill -9. With --now they stop after
processing what is in SOURCE now. Show their lag with: talos group describe SOURCE spark-per-minute
"""

import sys

from pyspark.sql import functions as F

from opentalos.pipelines.archive.pipeline import ArchiveWriter
from opentalos.pipelines.session import open_session

LATE = "30 seconds"  # a minute is written when messages so much younger than its end were seen


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


def main():
    source, target, folder = sys.argv[1:4]
    now = "--now" in sys.argv
    trigger = {"availableNow": True} if now else {"processingTime": "10 seconds"}
    spark = open_session("per minute")
    queries = []
    for name, rows, sink in (
        ("per-minute", per_minute(read(spark, source, "spark-per-minute")), write_to(target)),
        ("archive", read(spark, source, "spark-archive"), ArchiveWriter(f"{folder}/all", "zstd")),
    ):
        writer = rows.writeStream.queryName(name).foreachBatch(sink).trigger(**trigger)
        queries.append(writer.option("checkpointLocation", f"{folder}/checkpoints/{name}").start())
    for query in queries:
        query.awaitTermination()  # raises what ended it
        print(query.name, "is done")
    spark.stop()


if __name__ == "__main__":
    main()
