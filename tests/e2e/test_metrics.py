"""/metrics, /healthz and /readyz of real servers; the alerting rules name metrics that exist."""

import asyncio
import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from scripts.fetch_promtool import promtool
from tests.e2e.memory_cluster import memory_cluster, settled
from tests.product_metrics import product_series
from tests.raw_client import RawClient, RawTopic, TalosError, connection_to
from tests.server_process import ROOT_KEY, Key, ServerProcess
from tests.tls_files import TlsFolder
from tests.waiting import completed

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"
CASES = Path(__file__).with_name("alerts_test.yml")
PAGE = ROOT / "docs" / "operating" / "monitoring.md"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = TlsFolder(tmp_path_factory.mktemp("tls"))
    config = folder.section() + "[metrics]\ntopics_max = 2\n"
    # The service's own puts would be in the log's counters as well.
    config += (
        "[measuring]\nenabled = false\n[metering]\nenabled = false\n[audit]\nenabled = false\n"
    )
    running = ServerProcess(tmp_path_factory.mktemp("server"), config).start()
    yield running
    running.stop()


@pytest.fixture(scope="module")
def busy(server: ServerProcess) -> ServerProcess:
    """The server after some work, and after some that failed."""
    tls = TlsFolder.trust_of(server.config)
    client = RawClient(server.port, tls=tls)
    for name in ("one", "two", "three"):
        topic = RawTopic.create(client, name)
        for _ in range(5):
            topic.put(b"x" * 100, b"y" * 100)
        topic.get(0)
    with pytest.raises(TalosError):
        topic.put(b"x", partition=7)
    client.close()
    return server


def get(
    server: ServerProcess, path: str, key: Key | None = ROOT_KEY
) -> tuple[int, dict[str, str], str]:
    tls = TlsFolder.trust_of(server.config) if "cert_file" in server.config else None
    connection = connection_to(server.port, tls)
    headers = {}
    if key is not None:
        token = base64.b64encode(f"{key.key_id}:{key.secret}".encode()).decode()
        headers["Authorization"] = f"Basic {token}"
    connection.request("GET", path, headers=headers)
    reply = connection.getresponse()
    found = reply.status, dict(reply.getheaders()), reply.read().decode()
    connection.close()
    return found


def samples(page: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


def run_promtool(*arguments: str, given: str = "") -> None:
    tool = promtool()
    assert tool is not None, "no promtool: make setup fetches it from Debian's archive"
    done = completed([tool, *arguments], input=given)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr


def test_promtool_finds_nothing_to_complain_of(busy: ServerProcess) -> None:
    status, headers, page = get(busy, "/metrics")
    assert status == 200
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    run_promtool("check", "metrics", given=page)


async def test_promtool_finds_nothing_in_the_page_of_a_member() -> None:
    async with memory_cluster(2) as servers:
        topic = await asyncio.to_thread(RawTopic.create, servers[0].client(), "t", partitions=24)
        await settled(servers, topic.resource.topicTalosResourceName.rsplit("#", 1)[1], 24)
        token = base64.b64encode(f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}".encode()).decode()

        def read() -> str:
            connection = connection_to(servers[0].port, None)
            connection.request("GET", "/metrics", headers={"Authorization": f"Basic {token}"})
            page = connection.getresponse().read().decode()
            connection.close()
            topic.client.close()
            return page

        page = await asyncio.to_thread(read)
        await asyncio.to_thread(run_promtool, "check", "metrics", given=page)
        found = samples(page)
        assert found["opentalos_cluster_member", ()] == 1
        assert found["opentalos_cluster_servers", ()] == 2
        assert found["opentalos_cluster_partitions", ()] == 24


def test_what_was_done_is_counted(busy: ServerProcess) -> None:
    found = samples(get(busy, "/metrics")[2])
    assert found["opentalos_calls_total", (("kind", "put"),)] == 16
    assert found["opentalos_puts_total", ()] == 15  # one was refused
    assert found["opentalos_gets_total", ()] == 3
    assert found["opentalos_messages_stored_total", ()] == 30
    assert found["opentalos_messages_read_total", ()] == 30
    assert found["opentalos_put_bytes_total", ()] > 3000
    assert found["opentalos_failures_total", (("error", "PartitionNotExist"),)] == 1
    assert found["opentalos_put_duration_seconds_count", ()] == 16
    commits = found["opentalos_log_commits_total", ()]
    assert commits == found["opentalos_log_group_blocks_count", ()]
    assert commits == found["opentalos_log_commit_duration_seconds_count", ()]
    assert found["opentalos_log_blocks_total", ()] == 15
    assert found["opentalos_topics", ()] == 3
    assert found["opentalos_tls_handshakes_total", (("outcome", "done"),)] >= 2
    assert found["opentalos_tls_certificate_expiry_timestamp_seconds", ()] > 0
    assert found["process_resident_memory_bytes", ()] > 0


def test_topics_beyond_the_bound_share_one_series(busy: ServerProcess) -> None:
    found = samples(get(busy, "/metrics")[2])
    labels = {
        dict(labels)["topic"] for name, labels in found if name == "opentalos_topic_bytes_total"
    }
    assert len(labels) == 3
    assert "other" in labels
    stored = sum(
        value
        for (name, labels), value in found.items()
        if name == "opentalos_topic_messages_total" and ("direction", "in") in labels
    )
    assert stored == 30


def test_only_administrators_read_metrics_unless_access_is_open(
    busy: ServerProcess, tmp_path: Path
) -> None:
    assert get(busy, "/metrics", None)[0] == 401
    assert get(busy, "/metrics", Key(ROOT_KEY.key_id, "wrong"))[0] == 401
    server = ServerProcess(tmp_path, '[metrics]\naccess = "open"\n').start()
    try:
        status, _, page = get(server, "/metrics", None)
        assert status == 200
        assert "opentalos_topic_bytes" not in page
    finally:
        server.stop()


def test_the_alerting_rules_are_right_and_name_metrics_that_exist() -> None:
    run_promtool("check", "rules", str(ALERTS))
    known = {series.name for series in product_series()}
    assert set(re.findall(r"opentalos_\w+", ALERTS.read_text())) <= known


def test_the_alerts_are_raised_by_what_they_are_for(tmp_path: Path) -> None:
    cases = tmp_path / "cases.yml"
    cases.write_text(CASES.read_text().replace("RULES", str(ALERTS)))
    run_promtool("test", "rules", str(cases))


def test_the_guide_explains_every_alert() -> None:
    alerts = re.findall(r"- alert: (\w+)", ALERTS.read_text())
    assert len(alerts) > 5
    page = PAGE.read_text()
    assert [name for name in alerts if f"`{name}`" not in page] == []


def test_a_server_that_serves_is_alive_and_ready(busy: ServerProcess) -> None:
    for path in ("/healthz", "/readyz"):
        status, _, text = get(busy, path, None)
        assert (status, json.loads(text)) == (200, {"status": "ok"})


def test_the_status_page_is_for_those_with_a_key(busy: ServerProcess) -> None:
    status, headers, text = get(busy, "/", None)
    assert status == 401
    assert "Basic" not in headers["WWW-Authenticate"], "a browser opens no prompt"
    status, headers, text = get(busy, "/")
    assert status == 200
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert all(f"<td>{name}</td>" in text for name in ("one", "two", "three"))
    assert get(busy, "/", Key(ROOT_KEY.key_id, "wrong"))[0] == 401
