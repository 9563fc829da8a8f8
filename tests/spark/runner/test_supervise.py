"""``talos pipeline supervise``: real kills of runs and of supervisors."""

import os
import re
import signal
from pathlib import Path

import psutil
from tests.spark.archived import archived, each_once
from tests.spark.conftest import TalosServer
from tests.spark.pipeline_process import PipelineProcess
from tests.waiting import eventually, scale

from opentalos.model.names import METRICS_TOPIC
from opentalos.sdk import SimpleConsumer, SimpleProducer, TalosAdmin
from opentalos.wire.metrics.measurement import decode_measurement

TOPIC = "supervised"
STALL_S = 20.0  # a quiet run makes progress every second
PIDS = re.compile(r"started archive, pid (\d+)")


def put(server: TalosServer, count: int) -> None:
    with SimpleProducer(server.config, TOPIC, 0) as producer:
        producer.put([b"x"] * count)


def wait_archived(home: Path, supervisor: PipelineProcess, count: int) -> None:
    folder = home / "archive"
    rows = f"{count} messages are archived"
    eventually(rows, lambda: len(archived(folder)) >= count, state=supervisor.said)
    assert archived(folder) == each_once({0: count})


def pid_of(supervisor: PipelineProcess, life: int) -> int:
    supervisor.wait_for("started archive, pid", times=life)
    return int(PIDS.findall(supervisor.said())[life - 1])


def alarms_measured(server: TalosServer) -> float:
    total = 0.0
    with SimpleConsumer(server.config, METRICS_TOPIC) as consumer:
        for partition, kept in consumer.offsets().items():
            offset = kept.start
            while offset < kept.next:
                for record in consumer.fetch(partition, offset):
                    row = decode_measurement(record.data)
                    if row.service == "pipelines":
                        total += row.sums.get("pipeline_restarts", 0.0)
                    offset = record.offset + 1
    return total


def test_a_run_that_dies_or_hangs_is_started_again(server: TalosServer, tmp_path: Path) -> None:
    with TalosAdmin(server.config) as admin:
        admin.topics.create(TOPIC, partitions=1)
    home, hook = tmp_path / "home", tmp_path / "alarms"
    argv = ("supervise", "archive", "-o", f"archive.topics={TOPIC}", "--trigger", "1")
    more = ("--stall", f"{STALL_S * scale():g}", "--alarm-hook", f"tee -a {hook}")
    put(server, 100)
    first = PipelineProcess(server, home, *argv, *more)
    second = None
    try:
        wait_archived(home, first, 100)

        os.kill(pid_of(first, 1), signal.SIGKILL)
        first.wait_for("ALARM: archive: the run was killed by SIGKILL; restart 1 of 10")
        put(server, 100)
        wait_archived(home, first, 200)
        assert '"alarm": "restart"' in hook.read_text()
        assert alarms_measured(server) == 1.0

        java = [
            child for child in psutil.Process(pid_of(first, 2)).children() if "java" in child.name()
        ]
        java[0].suspend()
        first.wait_for("made no progress for")
        put(server, 100)
        wait_archived(home, first, 300)

        second = PipelineProcess(server, home, *argv)
        second.wait_for(f"standby: archive is supervised by pid {first.pid}")
        first.kill()
        second.wait_for("taking over archive")
        put(server, 100)
        wait_archived(home, second, 400)
        assert second.stop() == 0
        assert not psutil.pid_exists(pid_of(second, 1))
    finally:
        for item in (first, second):
            if item is not None:
                item.kill()
