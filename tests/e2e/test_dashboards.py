"""Prometheus's own parser and engine accept every expression of the dashboards."""

import json
import re
import subprocess
from pathlib import Path

from scripts.fetch_promtool import promtool
from scripts.generate_dashboards import FOLDER
from tests.product_metrics import product_series

TIMEOUT_S = 60.0
MINUTES = 60
FACTOR = {"le": {"0.001": 1, "1.0": 2, "+Inf": 3}}  # buckets are cumulative


def expressions() -> list[str]:
    """Each expression once, with Grafana's variables replaced."""
    found = {
        target["expr"]: None
        for path in sorted(FOLDER.glob("*.json"))
        for panel in json.loads(path.read_text())["panels"]
        for target in panel.get("targets", ())
    }
    replaced = {"$__rate_interval": "5m", "$job": "opentalos", "$instance": ".*"}
    return [
        re.sub("|".join(map(re.escape, replaced)), lambda name: replaced[name[0]], text)
        for text in found
    ]


def written_series() -> list[dict[str, str]]:
    """An hour of growing values of every metric, as one server would have it."""
    made: list[tuple[str, dict[str, str]]] = [("up", {})]
    made += [(series.name, series.labels) for series in product_series()]
    listed = []
    for name, labels in made:
        step = FACTOR["le"].get(labels.get("le", ""), 3)
        every = {"job": "opentalos", "instance": "talos-1:9420", **labels}
        text = ",".join(f"{label}={json.dumps(value)}" for label, value in every.items())
        listed.append({"series": f"{name}{{{text}}}", "values": f"0+{step}x{MINUTES}"})
    return listed


def test_prometheus_finds_data_for_every_expression(tmp_path: Path) -> None:
    tool = promtool()
    assert tool is not None, "no promtool: make setup fetches it from Debian's archive"
    asked = [
        {"expr": f"absent({text})", "eval_time": f"{MINUTES}m", "exp_samples": []}
        for text in expressions()
    ]
    assert len(asked) > 50
    test = {"interval": "1m", "input_series": written_series(), "promql_expr_test": asked}
    cases = tmp_path / "cases.yml"  # JSON is YAML
    cases.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(
        [str(tool), "test", "rules", str(cases)],
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_would_notice_a_metric_that_does_not_exist(tmp_path: Path) -> None:
    tool = promtool()
    assert tool is not None
    wrong = {"expr": "absent(opentalos_no_such{})", "eval_time": "1m", "exp_samples": []}
    test = {"interval": "1m", "input_series": written_series(), "promql_expr_test": [wrong]}
    cases = tmp_path / "cases.yml"
    cases.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    done = subprocess.run(
        [str(tool), "test", "rules", str(cases)],
        capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode != 0
    assert "opentalos_no_such" in done.stdout + done.stderr
