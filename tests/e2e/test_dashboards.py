"""Prometheus's own parser and engine accept every expression of the dashboards."""

import json
import re
import tomllib
import urllib.request
from base64 import b64encode
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from scripts.fetch_promtool import promtool
from scripts.generate_dashboards import FOLDER
from tests.e2e.rest.client import rest
from tests.product_metrics import product_series
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import completed, limit_s

COMPOSE = Path(__file__).resolve().parents[2] / "deploy" / "compose" / "conf" / "single.toml"
MINUTES = 60
OF_SCRAPE = 'job="opentalos",instance="talos-1:9420"'
# Not of a single server without TLS: those of a cluster, of certificates, and of calls of clients
# that speak SDS.
ELSEWHERE = r"opentalos_(cluster|forwarded|tls)_|sds_calls_total"
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


def real_series(server: ServerProcess) -> list[dict[str, str]]:
    """An hour of what a real server's page says now."""
    token = b64encode(f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}".encode()).decode()
    url = f"http://127.0.0.1:{server.port}/metrics"
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {token}"})
    with urllib.request.urlopen(request, timeout=limit_s()) as reply:
        page = reply.read().decode()
    listed = [{"series": f"up{{{OF_SCRAPE}}}", "values": f"1x{MINUTES}"}]
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            own = "".join(f",{name}={json.dumps(value)}" for name, value in sample.labels.items())
            text = f"{sample.value:.15g}x{MINUTES}"
            listed.append({"series": f"{sample.name}{{{OF_SCRAPE}{own}}}", "values": text})
    return listed


def without_data(series: list[dict[str, str]], folder: Path) -> set[str]:
    """The expressions that Prometheus finds nothing for."""
    tool = promtool()
    assert tool is not None, "no promtool: make setup fetches it from Debian's archive"
    asked = [
        {"expr": f"absent({text})", "eval_time": f"{MINUTES}m", "exp_samples": []}
        for text in expressions()
    ]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    cases = folder / "cases.yml"  # JSON is YAML
    cases.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    done = completed([tool, "test", "rules", cases])
    said = done.stdout + done.stderr
    plain = said.replace("\\", "")
    found = {text for text in expressions() if f'expr: "absent({text})"' in plain}
    assert (done.returncode, said.count("expr: ")) == (int(bool(found)), len(found)), said
    return found


def test_a_real_servers_page_has_data_for_the_dashboards(tmp_path: Path) -> None:
    shipped = tomllib.loads(COMPOSE.read_text())["metrics"]["topics_max"]
    config = f"[metrics]\ntopics_max = {shipped}\n[measuring]\nstep_s = 1.0\n"
    server = ServerProcess(tmp_path, config).start()
    try:
        rest(server, "POST", "topics", {"name": "t", "partitions": 1})
        rest(server, "POST", "topics/t/messages", {"messages": [{"text": "x"}]})
        joined = rest(server, "POST", "topics/t/groups/g/workers").document
        rest(server, "GET", f"topics/t/groups/g/workers/{joined['worker']}/messages?wait_s=1")
        rest(server, "GET", "topics/unknown")  # an error for the counter of errors
        series = real_series(server)
    finally:
        server.stop()
    odd = [text for text in without_data(series, tmp_path) if not re.search(ELSEWHERE, text)]
    assert odd == []


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
    done = completed([tool, "test", "rules", cases])
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_would_notice_a_metric_that_does_not_exist(tmp_path: Path) -> None:
    tool = promtool()
    assert tool is not None
    wrong = {"expr": "absent(opentalos_no_such{})", "eval_time": "1m", "exp_samples": []}
    test = {"interval": "1m", "input_series": written_series(), "promql_expr_test": [wrong]}
    cases = tmp_path / "cases.yml"
    cases.write_text(json.dumps({"rule_files": [], "evaluation_interval": "1m", "tests": [test]}))
    done = completed([tool, "test", "rules", cases])
    assert done.returncode != 0
    assert "opentalos_no_such" in done.stdout + done.stderr
