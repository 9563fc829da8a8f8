"""Write Grafana's dashboards to deploy/grafana; ``--check`` only compares.

Those over Prometheus are in ``dashboards``, those over Druid in ``druid``, so that each can be
provisioned without the other.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from scripts.dashboards.billing import BILLING
from scripts.dashboards.cluster import CLUSTER
from scripts.dashboards.druid.billing import DRUID_BILLING
from scripts.dashboards.druid.lag import DRUID_LAG
from scripts.dashboards.druid.service import DRUID_SERVICE
from scripts.dashboards.druid.tenants import DRUID_TENANTS
from scripts.dashboards.groups import GROUPS
from scripts.dashboards.panel import DRUID, FULL, PROMETHEUS, Dashboard, Panel
from scripts.dashboards.server import SERVER
from scripts.dashboards.service import SERVICE
from scripts.dashboards.tables import TABLES
from scripts.dashboards.tenants import TENANTS
from scripts.dashboards.topics import TOPICS

GRAFANA: Final = Path(__file__).resolve().parent.parent / "deploy" / "grafana"
FOLDER: Final = GRAFANA / "dashboards"
DRUID_FOLDER: Final = GRAFANA / "druid"
FOLDERS: Final = {PROMETHEUS: FOLDER, DRUID: DRUID_FOLDER}
DASHBOARDS: Final = (SERVICE, SERVER, CLUSTER, TENANTS, TOPICS, GROUPS, TABLES, BILLING)
DRUID_DASHBOARDS: Final = (DRUID_SERVICE, DRUID_TENANTS, DRUID_LAG, DRUID_BILLING)
SCHEMA_VERSION: Final = 39  # of Grafana 10.4 and 11; newer ones read it
HEIGHTS: Final = {"row": 1, "stat": 4, "text": 3, "timeseries": 8}
SELECTED: Final = 'job=~"$job",instance=~"$instance"'
INTERVAL_MIN: Final = "1m"  # of Druid's table metrics_1m; a shorter one would have gaps
_WIDE: Final = {"format": "wide"}  # of the plugin: a column for each series


def document(dashboard: Dashboard) -> dict[str, Any]:
    """The dashboard as Grafana reads it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["opentalos"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "timezone": "browser",
        "links": [
            {
                "type": "dashboards", "tags": ["opentalos"], "title": "OpenTalos",
                "asDropdown": True, "includeVars": True, "keepTime": True,
            }
        ],
        "annotations": {"list": []},
        "templating": {"list": list(_variables(dashboard.source))},
        "panels": list(_panels(dashboard)),
    }  # fmt: skip


def text_of(dashboard: Dashboard) -> str:
    """The file."""
    return json.dumps(document(dashboard), indent=1) + "\n"


def _source(kind: str) -> dict[str, str]:
    return {"type": kind, "uid": "${datasource}"}


def _variables(source: str) -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": source,
    }
    if source == DRUID:
        return
    for name, label, values in (
        ("job", "Job", "label_values(opentalos_build_info, job)"),
        ("instance", "Server", 'label_values(opentalos_build_info{job=~"$job"}, instance)'),
    ):
        yield {
            "name": name, "label": label, "type": "query", "datasource": _source(source),
            "definition": values, "query": {"query": values, "refId": name},
            "refresh": 2, "sort": 1,
            "multi": True, "includeAll": True, "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }  # fmt: skip


def _panels(dashboard: Dashboard) -> Iterator[dict[str, Any]]:
    """Panels from left to right and from top to bottom, each below a row's heading."""
    number, top = 0, 0
    for row in dashboard.rows:
        number += 1
        heading = {"h": HEIGHTS["row"], "w": FULL, "x": 0, "y": top}
        yield {
            "id": number, "type": "row", "title": row.title, "collapsed": False,
            "gridPos": heading, "panels": [],
        }  # fmt: skip
        top += HEIGHTS["row"]
        left, tallest = 0, 0
        for panel in row.panels:
            height = HEIGHTS[panel.kind]
            if left + panel.width > FULL:
                left, top, tallest = 0, top + tallest, 0
            number += 1
            place = {"h": height, "w": panel.width, "x": left, "y": top}
            yield {"id": number, "gridPos": place, **_panel(panel, dashboard.source)}
            left, tallest = left + panel.width, max(tallest, height)
        top += tallest


def _panel(panel: Panel, source: str) -> dict[str, Any]:
    if panel.kind == "text":
        content = {"mode": "markdown", "content": panel.about}
        return {"type": "text", "title": panel.title, "options": content}
    shown = {
        "type": panel.kind, "title": panel.title, "description": panel.about,
        "datasource": _source(source), "targets": list(_targets(panel, source)),
    }  # fmt: skip
    if source == DRUID:
        shown["interval"] = INTERVAL_MIN
    defaults: dict[str, Any] = {"unit": panel.unit}
    options: dict[str, Any]
    if panel.kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
    else:
        defaults["custom"] = {"fillOpacity": 10, "showPoints": "never", "spanNulls": False}
        options = {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    overrides = list(_names(panel)) if source == DRUID else []
    field_config = {"defaults": defaults, "overrides": overrides}
    return {**shown, "fieldConfig": field_config, "options": options}


def _targets(panel: Panel, source: str) -> Iterator[dict[str, Any]]:
    for number, query in enumerate(panel.queries):
        target: dict[str, Any] = {"refId": chr(ord("A") + number), "datasource": _source(source)}
        if source == PROMETHEUS:
            target["expr"] = query.expr.replace("$S", SELECTED)
            target["legendFormat"] = query.legend
        else:
            asked = {"builder": {"queryType": "sql", "query": query.expr}, "settings": _WIDE}
            # The plugin's editor reads the text, its backend the objects.
            target |= {**asked, "expr": json.dumps(asked)}
        yield target


def _names(panel: Panel) -> Iterator[dict[str, Any]]:
    """Names of the series of each query: the plugin has no format for them."""
    for number, query in enumerate(panel.queries):
        yield {
            "matcher": {"id": "byFrameRefID", "options": chr(ord("A") + number)},
            "properties": [
                {"id": "displayName", "value": query.legend or "${__field.labels.name}"}
            ],
        }


def main() -> int:
    """0: the files are current, or were written; 1: ``--check`` found one stale."""
    check, stale = sys.argv[1:] == ["--check"], 0
    for dashboard in (*DASHBOARDS, *DRUID_DASHBOARDS):
        path, text = FOLDERS[dashboard.source] / f"{dashboard.name}.json", text_of(dashboard)
        if check:
            current = path.exists() and path.read_text() == text
            stale += not current
            state = "current" if current else "stale: run make generate"
            print(f"{path.parent.name}/{path.name} is {state}")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.parent.name}/{path.name}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
