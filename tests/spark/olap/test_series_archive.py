"""Series that a server reads from Druid: what the pipeline's tables hold, in the same form."""

from typing import Any

import pyarrow as pa
import pytest
from tests.waiting import limit_s

from opentalos.adapters.druid.archive import DruidArchive
from opentalos.backends.druid import DruidBackend
from opentalos.model.errors import BadRequest, StoreUnavailable
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.monitoring.rollup_tables import (
    LEVELS,
    MEASURES,
    METRICS,
    SKETCH_COUNTS,
    sketch_table,
)
from opentalos.pipelines.olap.druid_store import DruidStore
from opentalos.ports.series_archive import ArchivePlace, ArchiveQuery
from opentalos.wire.metrics.sketch import bucket_of

pytestmark = pytest.mark.backend

HOUR = 1_764_000_000_000 - 1_764_000_000_000 % HOUR_MS
MINUTE_MS = 60_000


def row(at_ms: int, measure: str, **fields: Any) -> dict[str, Any]:
    """A row of a server, or with a tenant and topic one of a partition."""
    usual = {"service": "server", "cluster": "", "machine": "s1", "tenant": "", "topic": "",
             "partition": -1}  # fmt: skip
    return {"time": at_ms * 1_000, "measure": measure, **usual, **fields}


def amount(at_ms: int, measure: str, total: float, **fields: Any) -> dict[str, Any]:
    values = {"kind": "sum", "total": total, "samples": 1, "low": total, "high": total,
              "last": total}  # fmt: skip
    return {**row(at_ms, measure, **fields), **values}


def rows() -> dict[str, pa.Table]:
    """An hour with two minutes of traffic, of two tenants and two servers."""
    orders = {"tenant": "alice", "topic": "orders"}
    secret = {"tenant": "bob", "topic": "secret"}
    measures, sketches = [], []
    for minute, at_ms in enumerate((HOUR, HOUR + MINUTE_MS)):
        measures += [
            amount(at_ms, "put_messages", 5.0 + minute, **orders, partition=0),
            amount(at_ms, "put_messages", 1.0, **orders, partition=1, machine="s2"),
            amount(at_ms, "put_messages", 100.0, **secret, partition=0),
            amount(at_ms, "put_messages", 3.0, topic="__other"),
            amount(at_ms, "put_messages", 106.0 + minute),
            amount(at_ms, "put_messages", 1.0, machine="s2"),
            amount(at_ms, "consumer_lag", 8.0 - minute, **orders, partition=0),
            amount(at_ms, "consumer_lag", 2.0, **orders, partition=1),
        ]
        for milliseconds, count in ((1.0, 98), (50.0, 2)):
            counted = {"bucket": bucket_of(milliseconds), "count": count}
            sketches.append({**row(at_ms, "put_ms"), **counted})
    tables = {}
    for level in LEVELS:
        tables[level] = pa.Table.from_pylist(measures, MEASURES)
        tables[sketch_table(level)] = pa.Table.from_pylist(sketches, SKETCH_COUNTS)
    return tables


@pytest.fixture(scope="module")
def archive(druid: DruidBackend) -> DruidArchive:
    DruidStore(druid.url, (METRICS,)).replace(HOUR, rows())
    broker = druid.url.removeprefix("druid://").split(",")[1]
    return DruidArchive(f"http://{broker}", timeout_s=limit_s())


def query(measure: str = "put_messages", **fields: Any) -> ArchiveQuery:
    given: dict[str, Any] = {"from_ms": HOUR, "to_ms": HOUR + 2 * MINUTE_MS}
    return ArchiveQuery(measure=measure, **given | fields)


async def test_amounts_by_topic_partition_and_server(archive: DruidArchive) -> None:
    every = ArchivePlace()
    minutes = await archive.read(query(step_ms=MINUTE_MS))
    assert minutes == {every: {HOUR: 109.0, HOUR + MINUTE_MS: 110.0}}
    topics = await archive.read(query(split=("tenant", "topic")))
    assert topics == {
        ArchivePlace("alice", "orders"): {0: 13.0},
        ArchivePlace("bob", "secret"): {0: 200.0},
    }
    orders = [ArchivePlace("alice", "orders")]
    own = await archive.read(query(step_ms=MINUTE_MS, places=orders))
    assert own == {every: {HOUR: 6.0, HOUR + MINUTE_MS: 7.0}}
    partitions = await archive.read(query(split=("partition",), places=orders))
    assert partitions == {ArchivePlace(partition=0): {0: 11.0}, ArchivePlace(partition=1): {0: 2.0}}
    servers = await archive.read(query(split=("server",), places=()))
    assert servers == {ArchivePlace(server="s1"): {0: 213.0}, ArchivePlace(server="s2"): {0: 2.0}}


async def test_a_gauge_shows_the_sum_of_the_partitions_peaks(archive: DruidArchive) -> None:
    found = await archive.read(query("consumer_lag", gauge=True, step_ms=2 * MINUTE_MS))
    assert list(found[ArchivePlace()].values()) == [10.0]


async def test_a_percentile_is_of_merged_counts(archive: DruidArchive) -> None:
    asked = {"split": ("server",), "places": (), "step_ms": 2 * MINUTE_MS}
    for percent, milliseconds in ((50.0, 1.0), (99.0, 50.0)):
        found = await archive.read(query("put_ms", percent=percent, **asked))
        (value,) = found[ArchivePlace(server="s1")].values()
        assert value == pytest.approx(milliseconds, rel=0.02)


async def test_what_druid_refuses_or_cannot_do_is_said(archive: DruidArchive) -> None:
    with pytest.raises(BadRequest, match="Druid"):
        await archive._rows({"query": "SELECT nothing FROM nowhere"})
    with pytest.raises(StoreUnavailable, match="unavailable"):
        await DruidArchive("http://127.0.0.1:9").read(query())
