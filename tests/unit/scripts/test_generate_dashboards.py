"""Grafana's dashboards: current, as its schema wants them, and of metrics that exist."""

import importlib
import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from scripts.generate_dashboards import DASHBOARDS, FOLDER, SCHEMA_VERSION, text_of
from tests.product_metrics import product_series

GRAFANA = FOLDER.parent
FILES = sorted(path.name for path in FOLDER.glob("*.json"))
UNITS = {"ops", "Bps", "bytes", "s", "short", "none", "percentunit"}  # names that Grafana knows
COLUMNS = 24
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
OF_SCRAPES = {"job", "instance"}  # labels that Prometheus adds
BUILT_IN = {"$__rate_interval", "$__all"}
SELECTOR = re.compile(r"\b((?:opentalos|process|python|up)\w*)\{([^}]*)\}")
NAME = re.compile(r"\b(?:opentalos|process|python_gc)_\w+")
MATCHER = re.compile(r'(\w+)(=~|!=|!~|=)"([^"]*)"')
GROUPED = re.compile(r"\bby \(([^)]*)\)")
REPLACED = re.compile(r'label_replace\(.*, "(\w+)", "\$1", "(\w+)", "[^"]*"\)')


@cache
def dashboard(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return found


def panels(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dashboard(name)["panels"]
    return found


def targets(name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Title of the panel and each of its queries."""
    for panel in panels(name):
        for target in panel.get("targets", ()):
            yield panel["title"], target


@cache
def labels_of() -> dict[str, dict[str, set[str]]]:
    """The values of each label of each metric."""
    found: dict[str, dict[str, set[str]]] = {"up": {}}
    for series in product_series():
        labels = found.setdefault(series.name, {})
        for label, value in series.labels.items():
            labels.setdefault(label, set()).add(value)
    return found


def test_there_is_a_file_for_each_dashboard_and_it_is_current() -> None:
    assert sorted(f"{item.name}.json" for item in DASHBOARDS) == FILES
    stale = [d.name for d in DASHBOARDS if (FOLDER / f"{d.name}.json").read_text() != text_of(d)]
    assert stale == [], "run python -m scripts.generate_dashboards"


def test_no_two_dashboards_have_the_same_uid_or_title() -> None:
    for key in ("uid", "title"):
        assert len({dashboard(name)[key] for name in FILES}) == len(FILES)


@pytest.mark.parametrize("name", FILES)
def test_a_dashboard_has_what_grafana_requires(name: str) -> None:
    found = dashboard(name)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,40}", found["uid"])
    assert found["schemaVersion"] == SCHEMA_VERSION
    assert "id" not in found, "Grafana gives it"
    assert "__inputs" not in found, "a provisioned dashboard asks nothing"
    assert found["title"].startswith("OpenTalos: ")
    variables = {item["name"]: item for item in found["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["datasource"]["query"] == "prometheus"
    for variable in ("job", "instance"):
        assert variables[variable]["datasource"] == SOURCE
        assert variables[variable]["query"]["query"] == variables[variable]["definition"]
    used = set(re.findall(r"\$\w+", "".join(target["expr"] for _, target in targets(name))))
    assert used - BUILT_IN - {"$1"} == {f"${variable}" for variable in ("job", "instance")}


@pytest.mark.parametrize("name", FILES)
def test_every_panel_is_whole(name: str) -> None:
    numbers = [panel["id"] for panel in panels(name)]
    assert len(set(numbers)) == len(numbers)
    for panel in panels(name):
        assert panel["type"] in ("row", "text", "stat", "timeseries")
        assert panel["title"]
        if panel["type"] == "row":
            assert (panel["collapsed"], panel["panels"]) == (False, [])
        elif panel["type"] == "text":
            assert panel["options"]["mode"] == "markdown"
            assert panel["options"]["content"]
        else:
            assert panel["datasource"] == SOURCE
            assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
            found = [target["refId"] for target in panel["targets"]]
            assert found == ["A", "B", "C"][: len(found)]
            assert found
            assert all(target["datasource"] == SOURCE for target in panel["targets"])


@pytest.mark.parametrize("name", FILES)
def test_panels_are_on_the_grid_and_overlap_nowhere(name: str) -> None:
    places = [(panel["title"], panel["gridPos"]) for panel in panels(name)]
    for title, place in places:
        assert place["x"] >= 0, title
        assert place["x"] + place["w"] <= COLUMNS, title
        assert place["w"] > 0, title
        assert place["h"] > 0, title
    for (first, one), (second, other) in combinations(places, 2):
        apart = (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
        assert apart, f"{first} and {second}"


@pytest.mark.parametrize("name", FILES)
def test_expressions_name_metrics_and_labels_that_exist(name: str) -> None:
    known = labels_of()
    for title, target in targets(name):
        expr = target["expr"]
        selectors = SELECTOR.findall(expr)
        assert selectors, title
        assert {metric for metric, _ in selectors} >= set(NAME.findall(expr)), (
            f"{title}: a metric without the selected job and servers"
        )
        usable = set(OF_SCRAPES)
        for metric, matchers in selectors:
            assert metric in known, f"{title}: no metric {metric}"
            usable |= known[metric].keys()
            found = MATCHER.findall(matchers)
            assert {label for label, _, _ in found} >= OF_SCRAPES, title
            for label, operator, value in found:
                assert label in known[metric].keys() | OF_SCRAPES, f"{title}: no label {label}"
                if label not in OF_SCRAPES:
                    assert operator == "=", title
                    assert value in known[metric][label], f"{title}: no {label} {value}"
        for made, source in REPLACED.findall(expr):
            assert source in usable, title
            usable.add(made)
        groups = GROUPED.findall(expr)
        for label in {label.strip() for group in groups for label in group.split(",")}:
            assert label in usable, f"{title}: grouped by {label}"


@pytest.mark.parametrize("name", FILES)
def test_names_of_series_have_labels_that_the_expression_keeps(name: str) -> None:
    for title, target in targets(name):
        groups = GROUPED.findall(target["expr"])
        kept = {label.strip() for group in groups for label in group.split(",")}
        if not groups and not re.match(r"(sum|max|min|count|histogram_quantile)\b", target["expr"]):
            kept |= OF_SCRAPES
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept, title
        assert target["legendFormat"], title


def test_former_names_of_metrics_are_not_shown() -> None:
    shown = "".join((FOLDER / name).read_text() for name in FILES)
    for former in ("quota_holds", "quota_held_bytes", "table_holds", "table_slices"):
        assert former not in shown


def test_provisioning_names_the_source_and_the_folder() -> None:
    yaml: Any = importlib.import_module("yaml")

    def read(path: str) -> Any:
        return yaml.safe_load((GRAFANA / "provisioning" / path).read_text())

    sources = read("datasources/prometheus.yml")
    assert sources["apiVersion"] == 1
    [source] = sources["datasources"]
    assert (source["type"], source["access"]) == ("prometheus", "proxy")
    assert source["url"] == "http://127.0.0.1:9090"
    assert "password" not in str(source).lower()
    providers = read("dashboards/opentalos.yml")
    assert providers["apiVersion"] == 1
    [provider] = providers["providers"]
    assert (provider["type"], provider["folder"]) == ("file", "OpenTalos")
    assert Path(provider["options"]["path"]).is_absolute()


def test_the_guide_names_every_dashboard() -> None:
    page = (GRAFANA.parents[1] / "docs" / "operating" / "monitoring.md").read_text()
    assert [name for name in FILES if f"`{name}`" not in page] == []
