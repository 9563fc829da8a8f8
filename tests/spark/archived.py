"""What an archive has: files judged by DuckDB reading every one of them, a table by Delta."""

from collections import Counter
from pathlib import Path

import duckdb
from tests.spark.conftest import TalosServer
from tests.spark.pipeline_process import SaidProcess
from tests.waiting import eventually

from opentalos.model.errors import TalosError
from opentalos.pipelines.lake.opening import open_existing
from opentalos.sdk import SimpleProducer, TalosAdmin

PARTITIONS = 2
PUT = 1_500  # messages of each partition, each time


def archived(folder: Path) -> Counter[tuple[int, int]]:
    """How often each (partition, offset) is there; no file is left out."""
    if not list(folder.glob("**/*.parquet")):
        return Counter()
    with duckdb.connect() as connection:
        query = f"""select partition, "offset" from read_parquet('{folder}/**/*.parquet')"""
        return Counter(connection.execute(query).fetchall())


def each_once(counts: dict[int, int]) -> Counter[tuple[int, int]]:
    """What is there if each of so many messages per partition is there once."""
    return Counter((partition, at) for partition, count in counts.items() for at in range(count))


class ArchivedTopic:
    """A topic, and the table of Delta at ``url`` that a pipeline makes of it."""

    def __init__(self, server: TalosServer, topic: str, url: str) -> None:
        self.server, self.topic, self.url = server, topic, url
        self.put = 0  # messages of each partition
        with TalosAdmin(server.config) as admin:
            admin.topics.create(topic, partitions=PARTITIONS)

    @property
    def whole(self) -> int:
        """How many messages there are."""
        return self.put * PARTITIONS

    def put_more(self) -> None:
        for partition in range(PARTITIONS):
            with SimpleProducer(self.server.config, self.topic, partition) as producer:
                producer.put([b"x" * 100] * PUT)
        self.put += PUT

    def rows(self) -> int:
        try:
            return open_existing(self.url)[0].summary().rows
        except TalosError:
            return 0

    def wait_for(self, rows: int, driver: SaidProcess) -> None:
        """Until so many rows are committed."""

        def seen() -> bool:
            assert driver.process.poll() is None, driver.said()
            return self.rows() >= rows

        eventually(
            f"the archive of {self.topic} has {rows} rows",
            seen,
            state=lambda: f"{self.rows()} rows:\n{driver.said()}",
        )

    def check(self) -> None:
        """Each message is in the archive once."""
        found = open_existing(self.url)[0].read().select(["partition", "offset"]).to_pylist()
        counts = dict.fromkeys(range(PARTITIONS), self.put)
        assert Counter((row["partition"], row["offset"]) for row in found) == each_once(counts)
