"""Lag of consumer groups on the page /metrics of a real server."""

import urllib.request
from base64 import b64encode
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from tests.e2e.rest.client import rest
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import eventually, limit_s

CONFIG = "[measuring]\nstep_s = 1.0\n[metrics]\ngroups_max = 1\n"


def lags(server: ServerProcess) -> dict[tuple[str, str], float]:
    """By topic and group; under two empty names the largest."""
    token = b64encode(f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}".encode()).decode()
    url = f"http://127.0.0.1:{server.port}/metrics"
    request = urllib.request.Request(url, headers={"Authorization": f"Basic {token}"})
    with urllib.request.urlopen(request, timeout=limit_s()) as reply:
        page = reply.read().decode()
    return {
        (sample.labels.get("topic", ""), sample.labels.get("group", "")): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
        if sample.name.startswith("opentalos_group_lag_")
    }


def wait_for(server: ServerProcess, wanted: dict[tuple[str, str], float]) -> None:
    what = "the page has the lag of the groups"
    eventually(what, lambda: lags(server) == wanted, state=lambda: lags(server))


def worker(server: ServerProcess, group: str) -> str:
    """The path of a worker of a group, which holds its only partition."""
    joined = rest(server, "POST", f"topics/t/groups/{group}/workers").document
    return f"topics/t/groups/{group}/workers/{joined['worker']}"


def process(server: ServerProcess, path: str, offset: int) -> None:
    """Commit an offset of partition 0."""
    rest(server, "GET", f"{path}/messages?wait_s=1&encoding=text&messages_max=1")
    assert rest(server, "POST", f"{path}/commits", {"offsets": {"0": offset}}).status == 200


def test_the_lag_of_groups_is_on_the_page_of_metrics(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, CONFIG).start()
    try:
        rest(server, "POST", "topics", {"name": "t", "partitions": 1})
        messages = {"messages": [{"text": str(number)} for number in range(10)]}
        assert rest(server, "POST", "topics/t/messages", messages).status == 200
        slow, quick = worker(server, "slow"), worker(server, "quick")
        process(server, slow, 1)  # 8 messages behind
        process(server, quick, 7)  # 2
        wait_for(
            server,
            {("", ""): 8, ("root/t", "root/slow"): 8, ("other", "other"): 2},
        )
        process(server, slow, 9)
        process(server, quick, 8)
        wait_for(
            server,
            {("", ""): 1, ("root/t", "root/quick"): 1, ("other", "other"): 0},
        )
    finally:
        server.stop()
