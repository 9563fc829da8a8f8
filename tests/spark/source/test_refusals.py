"""Whatever goes wrong ends a query with a text that says what and where."""

import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import TalosServer
from tests.spark.source.conftest import Reading, create, put
from tests.waiting import eventually

from opentalos.sdk import Client, TalosAdmin
from opentalos.sdk.core.values import MessageBlock
from opentalos.sdk.rest_client import RestClient


def refused(spark: SparkSession, server: TalosServer, text: str, **options: Any) -> None:
    given = {"url": server.url, "key": server.key, **options}
    with pytest.raises(Exception, match=text):
        spark.read.format("talos").options(**given).load().collect()


def test_bad_options_are_named(spark: SparkSession, server: TalosServer) -> None:
    create(server, "refused", 1)
    for text, options in {
        "no option 'colour'": {"topic": "refused", "colour": "red"},
        "unknown column 'price'": {"topic": "refused", "columns": "price"},
        "topic nowhere does not exist, or AKROOTTEST": {"topic": "nowhere"},
        "topic 'other', which is not read": {
            "topic": "refused",
            "startingPosition": '{"other": {"0": 1}}',
        },
        "topic refused has no partition 7": {
            "topic": "refused",
            "startingPosition": '{"refused": {"7": 1}}',
        },
        r"refused\[0\]: position 5 is beyond the end": {
            "topic": "refused",
            "startingPosition": '{"refused": {"0": 5}}',
        },
    }.items():
        refused(spark, server, text, **options)


def test_a_server_that_is_down_is_waited_for_within_a_bound(
    spark: SparkSession, server: TalosServer
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        began_s = time.monotonic()
        text = f"cannot connect to {re.escape(url)}"
        refused(spark, server, text, url=url, topic="any", timeoutSeconds=2)
        assert time.monotonic() - began_s >= 1.0  # the claim is about time


def test_who_was_granted_nothing_sees_nothing(spark: SparkSession, server: TalosServer) -> None:
    create(server, "private", 1)
    put(server, "private", [5])
    rest = RestClient(server.config)
    rest("POST", "principals", {"id": "stranger"})
    made = rest("POST", "principals/stranger/keys")
    key = f"{made['key_id']}:{made['secret']}"
    refused(spark, server, "topic private does not exist, or", topic="private", key=key)


def test_a_damaged_block_is_named(spark: SparkSession, server: TalosServer) -> None:
    create(server, "damaged", 1)
    put(server, "damaged", [5])
    with Client(server.config) as client:
        ref = client.run(lambda inner: inner.topic("damaged"))
        client.run(lambda inner: inner.put(ref, 0, MessageBlock(b"V\0\3\0 none", 2)))
    refused(spark, server, r"damaged\[0\], offsets 0 to 7: a damaged block", topic="damaged")


def failure(query: Any) -> str:
    eventually("the query ends", lambda: not query.isActive, state=lambda: query.lastProgress)
    return str(query.exception())


def test_a_topic_that_is_deleted_ends_the_stream(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    create(server, "deleted", 1)
    put(server, "deleted", [5])
    reading = Reading(spark, server, tmp_path, {"topic": "deleted"})
    query = reading.start(processingTime="200 milliseconds")
    eventually("all messages are read", lambda: len(reading.seen.places) == 5)
    with TalosAdmin(server.config) as admin:
        admin.topics.delete("deleted")
    assert "topic deleted" in failure(query)


def test_a_pattern_goes_on_without_a_topic_that_is_deleted(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    create(server, "dropped-a", 1)
    create(server, "dropped-b", 1)
    put(server, "dropped-a", [5])
    put(server, "dropped-b", [5])
    reading = Reading(spark, server, tmp_path, {"topicPattern": "dropped-."})
    reading.run()
    with TalosAdmin(server.config) as admin:
        admin.topics.delete("dropped-a")
    put(server, "dropped-b", [2])
    assert "topic dropped-a was deleted while it was read" in failure(
        reading.start(availableNow=True)
    )
    reading.options["onDeleted"] = "drop"
    create(server, "dropped-a", 1)
    put(server, "dropped-a", [1])
    assert sum(map(len, reading.run())) == 3
    assert reading.seen.places.count(("dropped-a", 0, 0)) == 2


def test_a_recreated_topic_is_another_one(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    create(server, "recreated", 1)
    put(server, "recreated", [5])
    reading = Reading(spark, server, tmp_path, {"topic": "recreated"})
    reading.run()
    with TalosAdmin(server.config) as admin:
        admin.topics.delete("recreated")
    create(server, "recreated", 1)
    put(server, "recreated", [9])
    text = "topic recreated was deleted while it was read"
    assert text in failure(reading.start(availableNow=True))
    assert len(reading.seen.places) == 5


def test_expired_offsets_fail_or_are_skipped_and_counted(
    spark: SparkSession, quick_server: TalosServer, tmp_path: Path
) -> None:
    options = {"topic": "expired", "startingPosition": "latest"}
    reading = Reading(spark, quick_server, tmp_path, options)
    with TalosAdmin(quick_server.config) as admin:
        admin.topics.create("expired", partitions=1, retention_s=3_600)
        put(quick_server, "expired", [500])
        reading.run()
        put(quick_server, "expired", [500])
        reading.run()
        put(quick_server, "expired", [500])
        admin.topics.change("expired", retention_s=1)
        eventually(
            "all messages expire",
            lambda: admin.offsets("expired")[0].start == 1_500,
            state=lambda: admin.offsets("expired"),
        )
        admin.topics.change("expired", retention_s=3_600)
        put(quick_server, "expired", [100])
    query = reading.start(availableNow=True)
    assert "expired[0]: position 1000 has expired, the log starts at 1" in failure(query)
    reading.options["onExpired"] = "skip"
    query = reading.start(availableNow=True)
    query.awaitTermination()
    ends = [str(progress.sources[0].endOffset) for progress in query.recentProgress]
    assert re.search(r"""skipped['"]?: ?500\b""", ends[-1]), ends
    assert reading.seen.places == [
        ("expired", 0, n) for n in (*range(500, 1_000), *range(1_500, 1_600))
    ]
