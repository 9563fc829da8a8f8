"""The comparison of a replayed state with its table: nothing is found, or what was spoilt."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.spark.conftest import TalosServer
from tests.spark.sds.replaying import PLAIN, run, settings, settled, streamed, write

from opentalos.model.errors import ConfigError, Unavailable
from opentalos.pipelines.tables.replay_check import check, compared
from opentalos.pipelines.tables.replay_state import Replay
from opentalos.sdk import Client, TalosAdmin
from opentalos.sdk.stream import StoredState
from opentalos.sdk.tables import StreamView, TableAdmin, TalosTable

LOG = StreamView.MUTATE_LOG
MARK_MS = 1_000
KEY = {"user": "u", "page": "p"}


def side(replay: Replay, *states: StoredState) -> pa.Table:
    batches = list(replay.scanned(states))
    return pa.Table.from_batches(batches, replay.state_schema())


def at(time_ms: int, sequence: int, n: int | None = 1, misfits: int = 0) -> StoredState:
    """The record with this value; None: removed."""
    record: dict[str, Any] | None = None if n is None else {**KEY, "n": n}
    return StoredState(dict(KEY), record, time_ms, sequence, misfits=misfits)


@pytest.mark.parametrize(
    ("state", "row", "problem"),
    [
        (at(5, 1), at(5, 1), ""),
        (at(5, 1, None), at(5, 1, None), ""),
        (None, at(5, 1, None), ""),
        (at(5, 1, None), None, ""),
        (at(5, 1, 2), at(5, 1, 1), "the values differ"),
        (at(5, 1, None), at(5, 1, 1), "the values differ"),
        (at(5, 1), at(6, 2), "the state lacks change 2"),
        (at(6, 2), at(5, 1), "the table does not have change 2"),
        (None, at(5, 1), "the state has no such record"),
        (at(5, 1), None, "the table has no such record"),
        (at(2_000, 2, 1), at(2_000, 2, 3), "the values differ"),
        (at(5, 1), at(2_000, 2), None),
        (at(2_000, 2), at(5, 1), None),
        (None, at(2_000, 1), None),
        (at(2_000, 1), None, None),
    ],
)
def test_rows_are_compared_unless_one_is_newer_than_the_mark(
    state: StoredState | None, row: StoredState | None, problem: str | None
) -> None:
    replay = Replay("t", PLAIN, LOG)
    sides = (side(replay, *filter(None, [state])), side(replay, *filter(None, [row])))
    *rows, counts = compared(replay, MARK_MS, 5, sides).to_pylist()
    assert [item["problem"] for item in rows] == ([problem] if problem else [])
    assert (counts["records"], counts["newer"]) == ((1, 0) if problem is not None else (0, 1))
    assert counts["differing"] == len(rows)


def test_a_record_may_have_expired_and_amounts_that_did_not_fit_are_counted() -> None:
    replay = Replay("t", replace(PLAIN, ttl_s=1), LOG)
    sides = (side(replay, at(0 + 1, 1, 1, misfits=2)), side(replay))
    (young,) = compared(replay, MARK_MS, 5, sides).to_pylist()[-1:]
    assert (young["differing"], young["misfits"]) == (1, 2)
    (old,) = compared(replay, MARK_MS + 1, 5, sides).to_pylist()
    assert old["differing"] == 0


def removed(rows: pa.Table) -> list[bool]:
    found: list[bool] = rows.column("_deleted").to_pylist()
    return found


def test_a_spoilt_state_is_found(spark: SparkSession, server: TalosServer, tmp_path: Path) -> None:
    name, topic = "checked", "checked-changes"
    given = settings(server, tmp_path, table=name, bootstrap="scan")
    with Client(server.config) as client:
        with TalosAdmin(client) as topics:
            topics.topics.create(topic, partitions=2)
        TableAdmin(client).create(name, streamed({topic: LOG}))
        table = TalosTable(client, name)
        write(table, 0)
        with pytest.raises(ConfigError, match="no replay of checked"):
            check(spark, given, wait_s=0, rows_max=5)
        run(spark, given)
        write(table, 1)
        settled(client, name, topic)
        with pytest.raises(Unavailable, match="lags by"):
            check(spark, given, wait_s=0, rows_max=5)
        run(spark, given)
        found = check(spark, given, wait_s=0, rows_max=5)
        assert (found.differing, found.misfits, found.records + found.newer) == (0, 0, 10)
        lake = Replay(name, table.schema(), LOG).lake(tmp_path)
        part = next(item for item in lake.parts() if False in removed(lake.load(item)))
        rows = lake.load(part)
        spoilt = removed(rows).index(False)
        lake.replace(part, pa.concat_tables([rows.slice(0, spoilt), rows.slice(spoilt + 1)]))
        settled(client, name, topic)
        found = check(spark, given, wait_s=0, rows_max=5)
        (row,) = found.rows
        assert row["problem"] == "the state has no such record"
        assert "page=" in row["key"]
