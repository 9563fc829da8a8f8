"""Streams: counts, restarts, growth, and the lag of a group."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.spark.conftest import TalosServer
from tests.spark.source.conftest import Reading, create, places, put
from tests.waiting import eventually

from opentalos.sdk import Client, Message, SimpleProducer, TalosAdmin


def test_available_now_reads_everything_in_batches_of_the_limit(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    create(server, "limited", 4)
    put(server, "limited", [2_500, 2_500, 2_500, 1_000])
    reading = Reading(spark, server, tmp_path, {"topic": "limited", "maxMessagesPerTrigger": 3_000})
    batches = reading.run()
    assert [len(batch) for batch in batches] == [3_000, 3_000, 2_500]
    assert reading.seen.places == places("limited", (0, 2_500), (0, 2_500), (0, 2_500), (0, 1_000))
    assert {partition for _, partition, _ in batches[0]} == {0, 1, 2, 3}


def test_a_limit_in_bytes_is_shared_by_large_and_small_messages(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    create(server, "sized", 3)
    with Client(server.config) as client, SimpleProducer(client, "sized") as producer:
        for partition, (size, count) in enumerate(((100, 3_000), (10_000, 60), (90_000, 2))):
            messages = [Message(b"%0*d" % (size, n)) for n in range(count)]
            for start in range(0, count, 500):
                producer.put(messages[start : start + 500], partition=partition)
    limits = {"topic": "sized", "maxBytesPerTrigger": 120_000}
    reading = Reading(spark, server, tmp_path, limits)
    first, *later = reading.run()
    read = [[partition for _, partition, _ in batch] for batch in (first, *later)]
    # 40,000 bytes for each partition. A large message is read although it is larger than that.
    assert 250 <= read[0].count(0) <= 400
    assert 3 <= read[0].count(1) <= 4
    assert read[0].count(2) == 1
    sizes = (100, 10_000, 90_000)
    assert max(sum(sizes[partition] for partition in batch) for batch in read) <= 210_000
    assert len(read) >= 8
    assert reading.seen.places == places("sized", (0, 3_000), (0, 60), (0, 2))
    # A batch that was not committed comes again as it was, with another limit too.
    last = len(read) - 1
    (tmp_path / "commits" / str(last)).unlink()
    (tmp_path / "commits" / f".{last}.crc").unlink(missing_ok=True)
    reading.options["maxBytesPerTrigger"] = 1_000
    assert reading.run() == [later[-1]]


def test_a_restart_resumes_without_gap_or_overlap(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    create(server, "restarted", 2)
    reading = Reading(spark, server, tmp_path, {"topic": "restarted"})
    for run in range(3):
        put(server, "restarted", [700, 300])
        assert sum(map(len, reading.run())) == 1_000
        assert reading.seen.places == places(
            "restarted", (0, 700 * (run + 1)), (0, 300 * (run + 1))
        )
    assert reading.run() == []


def test_a_batch_that_was_not_committed_comes_again_with_the_same_rows(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    create(server, "again", 2)
    put(server, "again", [900, 400])
    options = {"topic": "again", "maxMessagesPerTrigger": 1_000}
    reading = Reading(spark, server, tmp_path, {**options, "startingPosition": "earliest"})
    first, second = reading.run()
    for commit in ("0", "1"):  # as if the driver was killed before it wrote them
        (tmp_path / "commits" / commit).unlink()
        (tmp_path / "commits" / f".{commit}.crc").unlink(missing_ok=True)
    (tmp_path / "offsets" / "1").unlink()
    (tmp_path / "offsets" / ".1.crc").unlink(missing_ok=True)
    put(server, "again", [50, 50])
    # The first batch is known by its own offset, not by where a new query would begin.
    reading.options |= {"startingPosition": "latest", "tasks": 1, "maxMessagesPerTrigger": 5_000}
    again = reading.run()
    assert again[0] == first
    assert sorted(again[1]) == sorted(
        [*second, *[("again", p, n) for p, n0 in ((0, 900), (1, 400)) for n in range(n0, n0 + 50)]]
    )


def test_partitions_that_are_added_are_read_from_their_first_message(
    spark: SparkSession, quick_server: TalosServer, tmp_path: Path
) -> None:
    create(quick_server, "grown", 1)
    put(quick_server, "grown", [100])
    reading = Reading(
        spark, quick_server, tmp_path, {"topic": "grown", "startingPosition": "latest"}
    )
    query = reading.start(processingTime="200 milliseconds")
    try:
        eventually("the query runs", lambda: query.lastProgress is not None)
        with TalosAdmin(quick_server.config) as admin:
            admin.topics.change("grown", partitions=3)
        put(quick_server, "grown", [50, 60, 70])
        eventually(
            "old and new partitions are read",
            lambda: query.exception() is not None or len(reading.seen.places) >= 180,
            state=lambda: query.lastProgress,
        )
    finally:
        query.stop()
    assert reading.seen.places == places("grown", (100, 150), (0, 60), (0, 70))


def test_a_pattern_takes_in_topics_that_are_made_later(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    create(server, "logs-a", 1)
    create(server, "other-logs-a", 1)
    put(server, "logs-a", [10])
    put(server, "other-logs-a", [10])
    reading = Reading(spark, server, tmp_path, {"topicPattern": "logs-.*"})
    assert sum(map(len, reading.run())) == 10
    create(server, "logs-b", 2)
    put(server, "logs-a", [5])
    put(server, "logs-b", [7, 8])
    reading.run()
    assert reading.seen.places == places("logs-a", (0, 15)) + places("logs-b", (0, 7), (0, 8))


def test_the_lag_of_the_group_is_what_is_left_to_read(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    create(server, "lagging", 2)
    put(server, "lagging", [800, 600])
    reading = Reading(spark, server, tmp_path, {"topic": "lagging", "group": "spark-query"})
    reading.run()
    with TalosAdmin(server.config) as admin:
        lags = admin.groups.lag("lagging", "spark-query")
        assert [(lag.checkpoint, lag.lag) for lag in lags] == [(799, 0), (599, 0)]
        put(server, "lagging", [20, 0])
        assert [item.lag for item in admin.groups.lag("lagging", "spark-query")] == [20, 0]
    fresh = Reading(
        spark,
        server,
        tmp_path / "fresh",
        {"topic": "lagging", "group": "spark-query", "startingPosition": "group"},
    )
    fresh.run()
    assert fresh.seen.places == [("lagging", 0, n) for n in range(800, 820)]


def rows_of(query: StreamingQuery) -> list[int]:
    """The rows of each batch of a query that is committed."""
    return [progress.numInputRows for progress in query.recentProgress]


def idle_since(query: StreamingQuery, when: datetime) -> bool:
    """Whether its last trigger began after this time and had nothing to read."""
    last = query.lastProgress
    return bool(last and last.numInputRows == 0 and datetime.fromisoformat(last.timestamp) > when)


def test_a_trigger_waits_for_its_smallest_number_of_messages(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    create(server, "waiting", 2)
    put(server, "waiting", [5, 0])
    least = {"topic": "waiting", "minMessagesPerTrigger": 100, "maxTriggerDelaySeconds": 3_600}
    reading = Reading(spark, server, tmp_path, least)
    query = reading.start(processingTime="100 milliseconds")
    try:
        # The first trigger does not wait.
        eventually("the first messages are read", lambda: len(reading.seen.places) == 5)
        put(server, "waiting", [40, 59])
        eventually("a trigger finds too few", partial(idle_since, query, datetime.now(UTC)))
        assert len(reading.seen.places) == 5
        put(server, "waiting", [0, 1])
        # Progress is told after the commit: a batch that is only seen would be run again.
        eventually(
            "a batch has all messages",
            lambda: query.exception() is not None or 100 in rows_of(query),
            state=lambda: query.lastProgress,
        )
    finally:
        query.stop()
    assert [len(batch) for batch in reading.seen.batches] == [5, 100]
    put(server, "waiting", [1, 0])
    assert [len(batch) for batch in reading.run()] == [1]  # everything that there is
