"""Every query of the dashboards over Druid, on a real Druid with a row of every measure."""

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest
from scripts.generate_dashboards import DRUID_FOLDER
from tests.spark.olap.test_stores import HOUR

from opentalos.backends.druid import DruidBackend
from opentalos.pipelines.lake.tables import HOUR_MS
from opentalos.pipelines.monitoring.rollup_tables import LEVELS, METRICS, sketch_table
from opentalos.pipelines.olap.druid_http import DruidHttp
from opentalos.pipelines.olap.druid_store import DruidStore
from opentalos.wire.metrics.measures import MEASURES, Kind, Scope
from opentalos.wire.metrics.sketch import bucket_of

pytestmark = pytest.mark.backend

STEP_MS = 120_000  # as for a range of some hours
TIMES = (HOUR, HOUR + 30 * 60_000)
TENANTS = ("7", "true", "alice")  # a plugin that guesses types must take them for texts
SLOW_MS = 50.0  # every call


def rows_of_every_measure(level: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """By table: what one server writes in two intervals."""
    for time_ms in TIMES if LEVELS[level] < HOUR_MS else TIMES[:1]:
        for measure in MEASURES:
            if measure.scope is Scope.MACHINE:
                continue
            for tenant in TENANTS if measure.scope is Scope.PARTITION else ("",):
                key = {
                    "time": time_ms, "service": "server", "cluster": "", "machine": "1",
                    "tenant": tenant, "topic": "orders" if tenant else "",
                    "partition": 0 if tenant else -1, "measure": measure.name,
                }  # fmt: skip
                if measure.kind is Kind.SKETCH:
                    yield sketch_table(level), {**key, "bucket": bucket_of(SLOW_MS), "count": 4}
                    continue
                numbers = {"total": 6.0, "samples": 6, "low": 1.0, "high": 1.0, "last": 1.0}
                yield level, {**key, "kind": measure.kind.value, **numbers}


@pytest.fixture(scope="module")
def http(druid: DruidBackend) -> DruidHttp:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in METRICS.tables}
    for level in LEVELS:
        for name, row in rows_of_every_measure(level):
            found[name].append(row)
    tables = {
        name: pa.Table.from_pylist(rows, schema=_in_ms(METRICS.tables[name]))
        for name, rows in found.items()
    }
    DruidStore(druid.url, (METRICS,)).replace(HOUR, tables)
    return DruidHttp(druid.url)


def _in_ms(schema: pa.Schema) -> pa.Schema:
    return schema.set(0, pa.field("time", pa.timestamp("ms", tz="UTC")))


def queries() -> Iterator[Any]:
    for path in sorted(DRUID_FOLDER.glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", ()):
                name = f"{path.stem}: {panel['title']} {target['refId']}"
                yield pytest.param(panel, target["builder"]["query"], id=name)


def asked(http: DruidHttp, query: str) -> list[dict[str, Any]]:
    """The answer, with Grafana's variables replaced."""
    values = {"${__from}": HOUR, "${__to}": HOUR + HOUR_MS, "$__interval_ms": STEP_MS}
    for variable, value in values.items():
        query = query.replace(variable, str(value))
    found: list[dict[str, Any]] = http.broker("/druid/v2/sql", {"query": query})
    return found


@pytest.mark.parametrize(("panel", "query"), list(queries()))
def test_a_query_has_rows_of_types_that_the_plugin_takes(
    http: DruidHttp, panel: dict[str, Any], query: str
) -> None:
    rows = asked(http, query)
    assert rows
    for row in rows:
        assert isinstance(row["value"], int | float), "no null, which has no type"
        if "name" in row:
            assert " " in row["name"] or "/" in row["name"], "neither a number nor a boolean"
    if panel["type"] == "stat":
        assert [list(row) for row in rows] == [["value"]]
        return
    times: list[Any] = [row.get("time_ms", row.get("time_day")) for row in rows]
    assert times == sorted(times), "the plugin makes a column of each series only in this order"
    for time in times:
        if isinstance(time, str):
            datetime.strptime(time, "%Y-%m-%dT%H:%M:%S.%fZ")
        else:
            assert time in TIMES


def test_rates_sums_and_shares_are_right(http: DruidHttp) -> None:
    found = {item.id: asked(http, item.values[1]) for item in queries()}
    rates = found["service: Calls A"]
    assert rates == [{"time_ms": time, "value": 6.0 * 1000 / STEP_MS} for time in TIMES]
    days = found["billing: Stored by tenant A"]
    assert {row["name"]: row["value"] for row in days} == dict.fromkeys(
        (f"tenant {tenant}" for tenant in TENANTS), 6.0
    )
    assert [row["value"] for row in found["service: Slow puts A"]] == [1.0, 1.0]  # > 10 ms
    assert [row["value"] for row in found["service: Slow puts C"]] == [0.0, 0.0]  # > 1 s
    assert found["lag: Worst partition A"] == [{"value": 1.0}]
    assert found["billing: Stored A"] == [{"value": 6.0 * len(TIMES) * len(TENANTS)}]
