"""Grafana's dashboards over Druid: current, and as the plugin wants its queries."""

import importlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from scripts.dashboards.panel import DRUID
from scripts.generate_dashboards import (
    DRUID_DASHBOARDS,
    DRUID_FOLDER,
    FOLDER,
    GRAFANA,
    SCHEMA_VERSION,
    text_of,
)

from opentalos.pipelines.monitoring.rollup_tables import METRICS
from opentalos.wire.metrics.measures import MEASURES

FILES = sorted(path.name for path in DRUID_FOLDER.glob("*.json"))
SOURCE = {"type": DRUID, "uid": "${datasource}"}
REPLACED = {"${__from}", "${__to}", "$__interval_ms"}  # by Grafana
UNITS = {"ops", "Bps", "bytes", "short", "percentunit", "ms"}  # names that Grafana knows


def dashboard(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DRUID_FOLDER / name).read_text())
    return found


def panels(name: str) -> Iterator[dict[str, Any]]:
    """Those with queries."""
    return (panel for panel in dashboard(name)["panels"] if "targets" in panel)


def test_service_tenants_lag_and_billing_are_there_and_current() -> None:
    assert FILES == ["billing.json", "lag.json", "service.json", "tenants.json"]
    assert sorted(f"{item.name}.json" for item in DRUID_DASHBOARDS) == FILES
    for item in DRUID_DASHBOARDS:
        path = DRUID_FOLDER / f"{item.name}.json"
        assert path.read_text() == text_of(item), "run python -m scripts.generate_dashboards"


def test_no_page_has_the_uid_or_title_of_another() -> None:
    every = [*DRUID_FOLDER.glob("*.json"), *FOLDER.glob("*.json")]
    for key in ("uid", "title"):
        assert len({json.loads(path.read_text())[key] for path in every}) == len(every)


@pytest.mark.parametrize("name", FILES)
def test_a_dashboard_has_what_grafana_requires(name: str) -> None:
    found = dashboard(name)
    assert re.fullmatch(r"opentalos-druid-[a-z]+", found["uid"])
    assert found["schemaVersion"] == SCHEMA_VERSION
    assert "id" not in found, "Grafana gives it"
    [variable] = found["templating"]["list"]
    assert (variable["type"], variable["query"]) == ("datasource", DRUID)
    for panel in panels(name):
        assert panel["datasource"] == SOURCE
        assert panel["type"] in ("stat", "timeseries")
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["interval"] == "1m", "rates of a table by minute"


@pytest.mark.parametrize("name", FILES)
def test_queries_are_as_the_plugin_reads_them(name: str) -> None:
    for panel in panels(name):
        named = {
            override["matcher"]["options"]: override["properties"][0]["value"]
            for override in panel["fieldConfig"]["overrides"]
        }
        for target in panel["targets"]:
            asked = {key: target[key] for key in ("builder", "settings")}
            assert json.loads(target["expr"]) == asked, "what the editor shows"
            assert asked["builder"]["queryType"] == "sql"
            assert asked["settings"] == {"format": "wide"}
            assert set(re.findall(r"\$\{?\w+}?", asked["builder"]["query"])) <= REPLACED
            by_label = named[target["refId"]] == "${__field.labels.name}"
            assert by_label == (' AS "name"' in asked["builder"]["query"])


@pytest.mark.parametrize("name", FILES)
def test_queries_name_tables_and_measures_that_exist(name: str) -> None:
    known = {measure.name for measure in MEASURES}
    for panel in panels(name):
        for target in panel["targets"]:
            query = target["builder"]["query"]
            assert "FROM metrics WHERE" in query
            assert set(re.findall(r"table_name = '(\w+)'", query)) <= METRICS.tables.keys()
            assert set(re.findall(r"measure = '(\w+)'", query)) <= known, panel["title"]


def test_provisioning_names_the_plugin_and_the_folder() -> None:
    yaml: Any = importlib.import_module("yaml")
    sources = yaml.safe_load((GRAFANA / "provisioning/datasources/druid.yml").read_text())
    [source] = sources["datasources"]
    assert source["type"] == DRUID
    assert source["jsonData"] == {"connection.url": "http://127.0.0.1:8082"}
    text = (GRAFANA / "provisioning/dashboards/opentalos-druid.yml").read_text()
    [provider] = yaml.safe_load(text)["providers"]
    assert provider["options"]["path"].endswith("/opentalos-druid")


def test_the_guide_names_every_dashboard() -> None:
    page = (GRAFANA.parents[1] / "docs" / "operating" / "monitoring.md").read_text()
    assert [name for name in FILES if f"`druid/{name}`" not in page] == []
