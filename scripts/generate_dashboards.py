"""Write Grafana's dashboards to deploy/grafana/dashboards; ``--check`` only compares."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from scripts.dashboards.billing import BILLING
from scripts.dashboards.cluster import CLUSTER
from scripts.dashboards.groups import GROUPS
from scripts.dashboards.panel import FULL, Dashboard, Panel
from scripts.dashboards.server import SERVER
from scripts.dashboards.service import SERVICE
from scripts.dashboards.tables import TABLES
from scripts.dashboards.tenants import TENANTS
from scripts.dashboards.topics import TOPICS

FOLDER: Final = Path(__file__).resolve().parent.parent / "deploy" / "grafana" / "dashboards"
DASHBOARDS: Final = (SERVICE, SERVER, CLUSTER, TENANTS, TOPICS, GROUPS, TABLES, BILLING)
SCHEMA_VERSION: Final = 39  # of Grafana 10.4 and 11; newer ones read it
HEIGHTS: Final = {"row": 1, "stat": 4, "text": 3, "timeseries": 8}
SELECTED: Final = 'job=~"$job",instance=~"$instance"'
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def document(dashboard: Dashboard) -> dict[str, Any]:
    """The dashboard as Grafana reads it."""
    return {
        "uid": f"opentalos-{dashboard.name}",
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
        "templating": {"list": list(_variables())},
        "panels": list(_panels(dashboard)),
    }  # fmt: skip


def text_of(dashboard: Dashboard) -> str:
    """The file."""
    return json.dumps(document(dashboard), indent=1) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {
        "name": "datasource",
        "label": "Data source",
        "type": "datasource",
        "query": "prometheus",
    }
    for name, label, values in (
        ("job", "Job", "label_values(opentalos_build_info, job)"),
        ("instance", "Server", 'label_values(opentalos_build_info{job=~"$job"}, instance)'),
    ):
        yield {
            "name": name, "label": label, "type": "query", "datasource": _SOURCE,
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
            yield {"id": number, "gridPos": place, **_panel(panel)}
            left, tallest = left + panel.width, max(tallest, height)
        top += tallest


def _panel(panel: Panel) -> dict[str, Any]:
    if panel.kind == "text":
        content = {"mode": "markdown", "content": panel.about}
        return {"type": "text", "title": panel.title, "options": content}
    shown = {
        "type": panel.kind, "title": panel.title, "description": panel.about,
        "datasource": _SOURCE, "targets": list(_targets(panel)),
    }  # fmt: skip
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
    return {**shown, "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options}


def _targets(panel: Panel) -> Iterator[dict[str, Any]]:
    for number, query in enumerate(panel.queries):
        yield {
            "refId": chr(ord("A") + number),
            "datasource": _SOURCE,
            "expr": query.expr.replace("$S", SELECTED),
            "legendFormat": query.legend,
        }


def main() -> int:
    """0: the files are current, or were written; 1: ``--check`` found one stale."""
    check, stale = sys.argv[1:] == ["--check"], 0
    for dashboard in DASHBOARDS:
        path, text = FOLDER / f"{dashboard.name}.json", text_of(dashboard)
        if check:
            current = path.exists() and path.read_text() == text
            stale += not current
            print(f"{path.name} is {'current' if current else 'stale: run make generate'}")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path.name}")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
