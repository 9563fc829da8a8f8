"""Topics in plain SQL: what works, and what is refused when it is created."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, EqualTo, Filter, InputPartition
from tests.spark.conftest import TalosServer
from tests.spark.source.conftest import create, put

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def options(server: TalosServer, **given: str) -> str:
    named = {"url": server.url, "key": server.key, **given}
    return ", ".join(f"{name} '{text}'" for name, text in named.items())


def test_a_view_of_a_topic_is_read_in_plain_sql(spark: SparkSession, server: TalosServer) -> None:
    create(server, "viewed", 2)
    put(server, "viewed", [4, 3])
    view = (
        "TEMPORARY VIEW viewed USING talos "
        f"OPTIONS ({options(server, topic='viewed', columns='partition,offset,value')})"
    )
    spark.sql(f"CREATE {view}")
    count = "SELECT partition, count(*), max(int(string(value))) FROM viewed GROUP BY 1 ORDER BY 1"
    assert [tuple(row) for row in spark.sql(count).collect()] == [(0, 4, 3), (1, 3, 2)]
    spark.sql("CREATE TEMPORARY VIEW late AS SELECT * FROM viewed WHERE offset > 1")
    assert spark.sql("SELECT * FROM late").count() == 3
    put(server, "viewed", [1, 0])
    # Spark plans the offsets of a view with its first query and keeps them.
    assert spark.sql("SELECT * FROM viewed").count() == 7
    spark.sql(f"CREATE OR REPLACE {view}")
    assert spark.sql("SELECT * FROM viewed").count() == 8


def test_what_cannot_be_read_is_refused_when_it_is_created(
    spark: SparkSession, server: TalosServer
) -> None:
    topic = options(server, topic="any")
    for statement, text in {
        f"CREATE TABLE kept USING talos OPTIONS ({topic})": "cannot be a table of Spark's catalog",
        f"CREATE TEMPORARY VIEW red USING talos OPTIONS ({topic}, colour 'red')": "'colour'",
        f"CREATE TEMPORARY VIEW no USING talos OPTIONS ({options(server)})": "give one of the opt",
    }.items():
        with pytest.raises(Exception, match=text):
            spark.sql(statement)
    # With columns Spark asks nobody when it creates the table, and passes no option when it reads.
    spark.sql(f"CREATE TABLE typed (value binary) USING talos OPTIONS ({topic})")
    try:
        with pytest.raises(Exception, match="a table of Spark's catalog passes none"):
            spark.sql("SELECT * FROM typed").collect()
    finally:
        spark.sql("DROP TABLE typed")


class Pushing(DataSource):
    """Three partitions of one row, and a filter for one of them."""

    @classmethod
    def name(cls) -> str:
        return "pushing"

    def schema(self) -> str:
        return "partition int"

    def reader(self, schema: Any) -> DataSourceReader:
        class Reader(DataSourceReader):
            wanted: tuple[int, ...] = (0, 1, 2)

            def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
                for item in filters:
                    if isinstance(item, EqualTo):
                        self.wanted = (item.value,)
                yield from filters

            def partitions(self) -> list[InputPartition]:
                return [InputPartition(number) for number in self.wanted]

            def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
                yield (partition.value,)

        return Reader()


def test_spark_keeps_a_pushed_filter_for_other_queries_of_a_frame(spark: SparkSession) -> None:
    # The reason why this source takes no filters. If this fails, Spark was corrected.
    spark.dataSource.register(Pushing)
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = spark.read.format("pushing").load()
        assert frame.where("partition = 1").count() == 1
        assert frame.count() == 1  # of 3
    finally:
        spark.conf.unset(PUSHDOWN)


def test_pushed_filters_of_a_session_change_nothing(
    spark: SparkSession, server: TalosServer
) -> None:
    create(server, "pushed", 2)
    put(server, "pushed", [3, 2])
    reader = spark.read.format("talos").options(url=server.url, key=server.key)
    spark.conf.set(PUSHDOWN, "true")
    try:
        frame = reader.load("pushed")
        assert frame.where("partition = 1 AND offset > 0").count() == 1
        assert frame.count() == 5
    finally:
        spark.conf.unset(PUSHDOWN)
