"""A replay that begins with a scan: for a stream that is younger than its table."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.conftest import TalosServer
from tests.spark.sds.replaying import (
    PLAIN,
    ordered,
    run,
    send_again,
    settings,
    settled,
    state,
    streamed,
    write,
)

from opentalos.model.errors import ConfigError, TableNotExist
from opentalos.pipelines.lake.tables import PartTable
from opentalos.pipelines.tables.pipeline import Followed
from opentalos.pipelines.tables.replay_start import ReplayStart, store
from opentalos.sdk import Client, TalosAdmin
from opentalos.sdk.errors import ChangeMissing
from opentalos.sdk.tables import DataType, StreamView, TableAdmin, TableSchema, TalosTable

LOG, IMAGE = StreamView.MUTATE_LOG, StreamView.RECORD_IMAGE


class Died(Exception):
    """The driver is gone at this point."""


def made(client: Client, name: str, view: StreamView) -> tuple[TalosTable, str]:
    """A table whose stream begins when it has records already, removed ones too."""
    topic = f"{name}-changes"
    with TalosAdmin(client) as topics:
        topics.topics.create(topic, partitions=2)
    admin, table = TableAdmin(client), TalosTable(client, name)
    admin.create(name, PLAIN)
    write(table, 0)
    admin.alter(name, streamed({topic: view}))
    table.schema(refresh=True)
    write(table, 1)
    return table, topic


def dies() -> None:
    raise Died


def stores_and_dies(home: Path, table: str, beginning: ReplayStart) -> None:
    store(home, table, beginning)
    raise Died


def scans(_followed: Followed, _spark: SparkSession) -> DataFrame:
    raise AssertionError("it scans again")


@pytest.mark.parametrize("view", [LOG, IMAGE], ids=["log", "image"])
def test_scan_and_stream_give_the_table_through_crashes(
    spark: SparkSession,
    server: TalosServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    view: StreamView,
) -> None:
    with Client(server.config) as client:
        table, topic = made(client, f"young-{view.value}", view)
        given = settings(server, tmp_path, table=table.name, bootstrap="scan")
        real, parts = PartTable.publish, list[int]()

        def dies_in_the_third(lake: PartTable, part: int, version: str) -> None:
            parts.append(part)
            real(lake, part, version) if len(parts) < 3 else dies()

        with monkeypatch.context() as patch:
            patch.setattr(PartTable, "publish", dies_in_the_third)
            with pytest.raises(Died):
                run(spark, given)
        write(table, 2)
        with monkeypatch.context() as patch:  # the scan is durable, the stream has not begun
            patch.setattr("opentalos.pipelines.tables.pipeline.store", stores_and_dies)
            with pytest.raises(Died):
                run(spark, given)
        monkeypatch.setattr(Followed, "scanned", scans)
        for number in (3, 0):
            write(table, number)
            settled(client, table.name, topic)
            send_again(client, topic)
            run(spark, given)
            assert state(spark, tmp_path, table.name) == ordered(table.scan())


def test_another_table_of_the_name_is_not_taken_for_it(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    with Client(server.config) as client:
        table, topic = made(client, "reborn", LOG)
        given = settings(server, tmp_path, table=table.name, bootstrap="scan")
        run(spark, given)
        before = state(spark, tmp_path, table.name)
        admin = TableAdmin(client)
        admin.drop(table.name)
        admin.create(table.name, streamed({topic: LOG}))
        write(table, 0)
        with pytest.raises(TableNotExist, match="another one has its name"):
            run(spark, given)
        assert state(spark, tmp_path, table.name) == before
        fresh = settings(server, tmp_path / "fresh", table=table.name, bootstrap="scan")
        run(spark, fresh)
        assert state(spark, tmp_path / "fresh", table.name) == ordered(table.scan())


def test_a_stream_that_was_off_is_reported_though_no_record_shows_it(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    with Client(server.config) as client:
        table, topic = made(client, "switched", LOG)
        given = settings(server, tmp_path, table=table.name, bootstrap="scan")
        run(spark, given)
        admin = TableAdmin(client)
        admin.alter(table.name, PLAIN)
        table.remove({"user": "ann", "page": "page-4"})  # no message will tell of it
        admin.alter(table.name, streamed({topic: LOG}))
        with pytest.raises(ChangeMissing, match="was disabled or stopped"):
            run(spark, given)


def test_a_new_column_comes_into_every_part(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    with Client(server.config) as client:
        table, topic = made(client, "wider", LOG)
        given = settings(server, tmp_path, table=table.name, bootstrap="scan")
        run(spark, given)
        wide = streamed({topic: LOG})
        types = {**wide.attributes, "more": DataType.STRING}
        TableAdmin(client).alter(
            table.name,
            TableSchema(
                group=wide.group, hashed=True, primary=wide.primary, attributes=types,
                shards=wide.shards, streams=wide.streams,
            ),
        )  # fmt: skip
        table.schema(refresh=True)
        table.put({"user": "ann", "page": "page-4", "more": "new"})
        settled(client, table.name, topic)
        run(spark, given)
        assert state(spark, tmp_path, table.name) == ordered(table.scan())
        files = list((tmp_path / "lake" / "tables" / table.name).glob("*.parquet"))
        assert len(files) == 8
        assert all("more" in pq.read_schema(file).names for file in files)


def test_a_replay_without_a_scan_does_not_become_one_with_it(
    spark: SparkSession, server: TalosServer, tmp_path: Path
) -> None:
    with Client(server.config) as client:
        table, _ = made(client, "settled", LOG)
        plain = settings(server, tmp_path, table=table.name, complete="no")
        run(spark, plain)
        scan = settings(server, tmp_path, table=table.name, bootstrap="scan")
        with pytest.raises(ConfigError, match="started without a scan"):
            run(spark, scan)
