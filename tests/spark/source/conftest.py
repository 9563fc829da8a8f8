"""Topics with messages, and a server that forgets and grows quickly."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.server_process import ServerProcess
from tests.spark.conftest import TalosServer
from tests.spark.queries import started

from opentalos.sdk import (
    Client,
    Compression,
    Message,
    Record,
    SimpleConsumer,
    SimpleProducer,
    TalosAdmin,
)

# Partitions may be added at once; messages of a topic with retention_s = 1 go within seconds, and
# do not wait until their minute is metered.
QUICK = """
[metering]
enabled = false
[topic]
retention_min_s = 1
change_partition_interval_s = 0.0
[log]
segment_bytes_max = 1024
segment_age_max_s = 0.5
retention_interval_s = 0.1
delete_grace_s = 0.1
"""


@pytest.fixture(scope="session")
def quick_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TalosServer]:
    process = ServerProcess(tmp_path_factory.mktemp("quick-server"), QUICK)
    process.start()
    try:
        yield TalosServer(process)
    finally:
        process.stop()


def create(server: TalosServer, topic: str, partitions: int) -> None:
    """A topic without messages."""
    with TalosAdmin(server.config) as admin:
        admin.topics.create(topic, partitions=partitions)


def put(
    server: TalosServer,
    topic: str,
    counts: Sequence[int],
    compression: Compression = Compression.LZ4,
) -> None:
    """So many messages to each partition; every other one has a key."""
    with (
        Client(server.config) as client,
        SimpleProducer(client, topic, compression=compression) as p,
    ):
        for partition, count in enumerate(counts):
            messages = [
                Message(b"%d" % n, partition_key=f"key {n}" if n % 2 else None, tag=f"tag {n}")
                for n in range(count)
            ]
            for start in range(0, count, 500):
                p.put(messages[start : start + 500], partition=partition)


def read_all(server: TalosServer, topic: str) -> list[Record]:
    """Everything in a topic, read with the plain SDK, by partition and offset."""
    records: list[Record] = []
    with SimpleConsumer(server.config, topic) as consumer:
        for partition, there in sorted(consumer.offsets().items()):
            offset = there.start
            while offset < there.next:
                records += consumer.fetch(partition, offset)
                offset = records[-1].offset + 1
    return records


@dataclass
class Seen:
    """What a query handed on, batch by batch; nothing is made distinct."""

    batches: list[list[tuple[str, int, int]]] = field(default_factory=list)

    def take(self, frame: DataFrame, _: int) -> None:
        found = frame.select("topic", "partition", "offset").collect()
        self.batches.append([(row[0], row[1], row[2]) for row in found])

    @property
    def places(self) -> list[tuple[str, int, int]]:
        return sorted(place for batch in self.batches for place in batch)


@dataclass
class Reading:
    """A query's source and checkpoint; each ``run`` is a start of it."""

    spark: SparkSession
    server: TalosServer
    checkpoint: Path
    options: dict[str, Any]
    seen: Seen = field(default_factory=Seen)

    def start(self, **trigger: Any) -> Any:
        frame = (
            self.spark.readStream.format("talos")
            .options(url=self.server.url, key=self.server.key, **self.options)
            .load()
        )
        write = (
            frame.writeStream.option("checkpointLocation", str(self.checkpoint))
            .foreachBatch(self.seen.take)
            .trigger(**trigger)
        )
        return started(write.start)

    def run(self) -> list[list[tuple[str, int, int]]]:
        """The batches of everything that there is now."""
        before = len(self.seen.batches)
        query = self.start(availableNow=True)
        query.awaitTermination()
        return self.seen.batches[before:]


def places(topic: str, *ranges: tuple[int, int]) -> list[tuple[str, int, int]]:
    """Offsets of the partitions, from and to, in order."""
    return [
        (topic, partition, offset)
        for partition, (first, last) in enumerate(ranges)
        for offset in range(first, last)
    ]
