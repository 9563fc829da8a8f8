"""``talos pipeline run`` with real processes: locks, servers that are away, topics that go."""

import json
from pathlib import Path

import psutil
import pytest
from tests.server_process import ServerProcess
from tests.spark.archived import archived, each_once
from tests.spark.conftest import TalosServer
from tests.spark.pipeline_process import PipelineProcess
from tests.waiting import elapse, eventually

from opentalos.model.names import METRICS_TOPIC, USAGE_TOPIC
from opentalos.sdk import SimpleProducer, TalosAdmin

TOPIC = "streamed"
TRIGGER_S = 1


def put(server: TalosServer, count: int) -> None:
    with SimpleProducer(server.config, TOPIC, 0) as producer:
        producer.put([b"x"] * count)


def wait_archived(home: Path, run: PipelineProcess, count: int) -> None:
    rows = f"{count} messages are archived"
    eventually(rows, lambda: len(archived(home / "archive")) >= count, state=run.said)
    assert archived(home / "archive") == each_once({0: count})


def test_a_run_waits_for_its_server_and_ends_with_its_topic(tmp_path: Path) -> None:
    process = ServerProcess(tmp_path / "server")
    server = TalosServer(process.start())
    home = tmp_path / "home"
    with TalosAdmin(server.config) as admin:
        admin.topics.create(TOPIC, partitions=1)
    put(server, 50)
    process.kill()
    argv = ("run", "archive", "-o", f"archive.topics={TOPIC}", "--trigger", str(TRIGGER_S))
    run = PipelineProcess(server, home, *argv)
    try:
        run.wait_for("s for the server: ")  # down at the start
        process.start()
        wait_archived(home, run, 50)

        other = PipelineProcess(server, home, *argv)
        assert other.wait() == 1
        assert f"archive is already running on {home} (pid {run.pid})" in other.said()

        process.kill()  # down in between
        elapse("a trigger finds no server", 2 * TRIGGER_S)
        process.start()
        put(server, 50)
        wait_archived(home, run, 100)

        with TalosAdmin(server.config) as admin:
            admin.topics.delete(TOPIC)
        assert run.wait() == 1
        assert run.verdict().startswith("talos: archive failed: TopicNotExist: "), run.said()
    finally:
        run.kill()
        process.stop()


def test_sigterm_ends_a_run_between_two_batches(server: TalosServer, tmp_path: Path) -> None:
    with TalosAdmin(server.config) as admin:
        admin.topics.create("stopped", partitions=1)
    with SimpleProducer(server.config, "stopped", 0) as producer:
        producer.put([b"x"] * 10)
    argv = ("run", "archive", "-o", "archive.topics=stopped", "--trigger", "1", "--format", "json")
    run = PipelineProcess(server, tmp_path, *argv)
    try:
        run.wait_for('"rows": 10')
        assert run.stop() == 0
    finally:
        run.kill()
    events = [json.loads(line) for line in run.said().splitlines() if line.startswith("{")]
    assert [event["batch"] for event in events if event["event"] == "progress"] == [0]
    assert events[-1] == {"event": "note", "text": "stopped"}


def test_the_end_of_its_java_ends_a_run_in_one_line(server: TalosServer, tmp_path: Path) -> None:
    with TalosAdmin(server.config) as admin:
        admin.topics.create("without-java", partitions=1)
    with SimpleProducer(server.config, "without-java", 0) as producer:
        producer.put([b"x"] * 10)
    run = PipelineProcess(server, tmp_path, "run", "archive", "-o", "archive.topics=without-java")
    try:
        run.wait_for("archive  batch 0")
        (java,) = (child for child in psutil.Process(run.pid).children() if "java" in child.name())
        java.kill()
        assert run.wait() == 1
    finally:
        run.kill()
    # PySpark's own threads say on stderr that they lost their Java, before or after this line.
    assert "\ntalos: the Spark session failed: " in run.said()


def test_several_share_a_session_and_one_that_fails_ends_all(
    server: TalosServer, tmp_path: Path
) -> None:
    with TalosAdmin(server.config) as admin:
        admin.topics.create("shared", partitions=1)
    with SimpleProducer(server.config, "shared", 0) as producer:
        producer.put([b"x"] * 10)
    for name in (METRICS_TOPIC, USAGE_TOPIC):
        server.wait_for_topic(name)
    argv = ("run", "archive", "metering", "monitoring", "-o")
    both = PipelineProcess(server, tmp_path, *argv, "archive.topics=shared", "--available-now")
    try:
        assert both.wait() == 0, both.said()
    finally:
        both.kill()
    assert archived(tmp_path / "archive") == each_once({0: 10})
    checkpoints = [path.name for path in (tmp_path / "checkpoints").iterdir() if path.is_dir()]
    assert sorted(checkpoints) == ["archive", "metering", "monitoring"]

    failing = PipelineProcess(server, tmp_path / "other", *argv, "archive.topics=never-made")
    try:
        assert failing.wait() == 1
    finally:
        failing.kill()
    assert failing.verdict().startswith("talos: archive failed: TopicNotExist: ")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("archiv",), "no pipeline 'archiv'; did you mean archive?"),
        (
            ("archive", "-o", "archive.topic=a"),
            "no option of archive 'topic'; did you",
        ),
        (("archive", "-o", "archiv.topics=a"), "did you mean archive?"),
        (("archive", "-o", "topics=a"), "write NAME.option=value"),
    ],
)
def test_what_is_unknown_is_refused_before_spark_starts(
    server: TalosServer, tmp_path: Path, argv: tuple[str, ...], said: str
) -> None:
    run = PipelineProcess(server, tmp_path, "run", *argv)
    assert run.wait() == 1
    assert said in run.said()
    assert "incubator" not in run.said()  # the first that a Java says
