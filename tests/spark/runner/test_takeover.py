"""Two hosts with one home whose locks do not reach each other, as on some network file systems."""

import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
from deltalake import DeltaTable
from tests.spark.archived import each_once
from tests.spark.conftest import TalosServer
from tests.spark.pipeline_process import PipelineProcess, runs
from tests.spark.runner import stopping_talos
from tests.spark.runner.stopping_talos import (
    CONTINUE,
    FOLDER_VARIABLE,
    OUTCOME,
    STOP,
    STOPPED,
)
from tests.waiting import eventually, scale

from opentalos.pipelines.runtime.home_id import home_id
from opentalos.sdk import SimpleProducer, TalosAdmin
from opentalos.sdk.rest_client import RestClient

TOPIC = "taken-over"
LEASE_S = 20.0  # in which a second run starts on a quiet machine
PIDS = re.compile(r"started archive, pid (\d+)")


def put(server: TalosServer, count: int) -> None:
    with SimpleProducer(server.config, TOPIC, 0) as producer:
        producer.put([b"x"] * count)


def archived(folder: Path) -> Counter[tuple[int, int]]:
    if not DeltaTable.is_deltatable(str(folder)):
        return Counter()
    rows = DeltaTable(str(folder)).to_pyarrow_table(columns=["partition", "offset"])
    return Counter((row["partition"], row["offset"]) for row in rows.to_pylist())


def second_view(first: Path, second: Path) -> None:
    """Another host's view of the home: the same files, but each host has its own locks."""
    (second / "checkpoints").mkdir(parents=True)
    (second / "home.id").symlink_to(first / "home.id")
    (second / "checkpoints" / "archive").symlink_to(first / "checkpoints" / "archive")


def lease_of(server: TalosServer, home: Path) -> Any:
    return RestClient(server.config)("GET", f"leases/archive-{home_id(home)}")


def java_of(pid: int) -> psutil.Process:
    (found,) = [child for child in psutil.Process(pid).children() if "java" in child.name()]
    return found


def wait_archived(archive: Path, run: PipelineProcess, count: int) -> None:
    rows, wanted = f"{count} messages are archived", each_once({0: count})
    eventually(rows, lambda: archived(archive) == wanted, state=run.said)


def test_a_run_whose_java_survives_it_is_replaced_and_its_late_commit_refused(
    server: TalosServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TalosAdmin(server.config) as admin:
        admin.topics.create(TOPIC, partitions=1)
    folder, archive = tmp_path / "says", tmp_path / "archive"
    folder.mkdir()
    os.mkfifo(folder / CONTINUE)
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    options = (
        "archive", "-o", f"archive.topics={TOPIC}", "-o", f"archive.path=delta+file://{archive}",
        "--trigger", "1", "--lease", f"{LEASE_S * scale():g}",
    )  # fmt: skip
    homes = tmp_path / "first", tmp_path / "second"
    put(server, 100)
    program = (sys.executable, stopping_talos.__file__)
    first = PipelineProcess(server, homes[0], "run", *options, program=program)
    second = None
    java = []
    try:
        wait_archived(archive, first, 100)
        java.append(java_of(first.pid))
        before = lease_of(server, homes[0])["epoch"]
        (folder / STOP).touch()
        put(server, 100)
        eventually("the run stops at a commit", (folder / STOPPED).exists, state=first.said)
        assert runs(java[0]), "its Java process lives"

        second_view(*homes)
        second = PipelineProcess(server, homes[1], "supervise", *options)
        second.wait_for("standby: archive waits for its lease: lease archive-")
        wait_archived(archive, second, 200)
        put(server, 100)
        wait_archived(archive, second, 300)
        (pid,) = PIDS.findall(second.said())
        java.append(java_of(int(pid)))
        lease = lease_of(server, homes[0])
        after = lease["epoch"]
        assert after > before  # all leases of the server's owner share their epochs
        assert f":{pid}:" in lease["holder"]

        go_on = os.open(folder / CONTINUE, os.O_RDWR)
        os.write(go_on, b"!")
        os.kill(first.pid, signal.SIGCONT)
        eventually("the late commit has an outcome", (folder / OUTCOME).exists, state=first.said)
        os.close(go_on)
        outcome = (folder / OUTCOME).read_text()
        assert outcome.startswith("LeaseNotHeld: could not write "), outcome
        assert f"under epoch {before}: a run with epoch {after} has written it" in outcome
        assert first.wait() == 1
        assert "another run may have taken over" in first.verdict()
        eventually("its Java process ends", lambda: not runs(java[0]), state=first.said)

        put(server, 100)
        wait_archived(archive, second, 400)
        assert second.stop() == 0
        left = RestClient(server.config)("GET", "leases")["leases"]
        assert lease["name"] not in {each["name"] for each in left}, "released at its end"
    finally:
        for item in (first, second):
            if item is not None:
                item.kill()
        for process in java:
            if runs(process):
                process.kill()
