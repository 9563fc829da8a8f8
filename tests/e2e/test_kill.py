"""A server killed with SIGKILL under load of the official SDK, judged by the history checker.

``make test`` kills twice, ``make test-all`` five times, ``make faults`` fifty times
(OPENTALOS_KILLS). With a journal and many quiet partitions it is killed half as often: each
restart recovers all of them.
"""

import os
import random
import subprocess
from pathlib import Path

import pytest
from tests.compat.conftest import Sdk, sdk_environment
from tests.quiet_load import PARTITIONS_MAX, QuietLoad
from tests.server_process import ServerProcess
from tests.waiting import elapse, eventually, limit_s

from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.history import History

KILLS = int(os.environ.get("OPENTALOS_KILLS", "5"))
TOPIC = "killed"
PARTITIONS = 2
WRITERS = 2  # per partition
LOAD_S = (0.3, 1.0)  # between the progress after a restart and the next kill
PROGRESS = 4  # answers to each program of the SDK after a restart
QUIET_PROGRESS = 20  # answers to all quiet writers before a kill
QUIET = 1_000  # partitions of one journal
QUIET_KILLS = max(2, KILLS // 2)


class Load:
    """One load program of the SDK, in its own process, with the history it writes."""

    def __init__(self, sdk: Sdk, program: str, folder: Path, name: str, partition: int) -> None:
        self.path = folder / f"{name}.jsonl"
        command = sdk.command(
            program, topic=TOPIC, partition=partition, prefix=name, history=str(self.path)
        )
        self.process = subprocess.Popen(
            command,
            env=sdk_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_started(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]

    def answered(self) -> int:
        """How many calls were answered with success."""
        return self.path.read_text().count('"event": "ok"') if self.path.exists() else 0

    def stop(self) -> None:
        _, stderr = self.process.communicate(timeout=limit_s())
        assert self.process.returncode == 0, stderr

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


def wait_for_progress(loads: list[Load]) -> None:
    """Every program got answers after the restart."""
    before = [load.answered() for load in loads]

    def gained() -> list[int]:
        assert all(load.process.poll() is None for load in loads), "a program has ended"
        return [load.answered() - count for load, count in zip(loads, before, strict=True)]

    eventually("every program gets answers", lambda: min(gained()) >= PROGRESS, state=gained)


def wait_for_quiet_progress(load: QuietLoad) -> None:
    """The writers together got answers from now on."""
    wanted = sum(load.answered) + QUIET_PROGRESS
    what = "the quiet writers get answers"
    eventually(what, lambda: sum(load.answered) >= wanted, state=lambda: load.answered)


@pytest.mark.parametrize("durability", ["synced", "flushed"])
def test_kill_9_under_load_loses_invents_and_repeats_nothing(
    tmp_path: Path, durability: str
) -> None:
    server = ServerProcess(tmp_path / "server").start()
    sdk, source = Sdk(server), random.Random(0)
    sdk.topic(TOPIC, partitions=PARTITIONS, durability=durability)
    loads: list[Load] = []
    try:
        for partition in range(PARTITIONS):
            for number in range(WRITERS):
                name = f"writer-{partition}-{number}"
                loads.append(Load(sdk, "load_writer", tmp_path, name, partition))
            loads.append(Load(sdk, "load_reader", tmp_path, f"reader-{partition}", partition))
        for load in loads:
            load.wait_started()
        for _ in range(KILLS):
            wait_for_progress(loads)
            elapse("the kill comes at any time", source.uniform(*LOAD_S))
            server.kill()
            server.start()
        wait_for_progress(loads)
        for load in loads:
            load.stop()
        final = str(tmp_path / "final.jsonl")
        sdk.run("load_final", topic=TOPIC, partitions=PARTITIONS, history=final)
    finally:
        for load in loads:
            load.kill()
        server.stop()
    history = History.load(sorted(tmp_path.glob("*.jsonl")))
    acknowledged = sum(1 for put in history.of("put") if put.ok)
    assert acknowledged > 10 * KILLS, "hardly any load"
    assert [str(anomaly) for anomaly in check(history)] == []


def test_kill_9_of_a_server_whose_partitions_share_a_journal_loses_nothing(tmp_path: Path) -> None:
    # A stop that takes as long as it needs: else a busy machine leaves journals to the next start.
    config = f'{PARTITIONS_MAX}[log]\njournal = "on"\nclose_s = 60.0\n'
    server = ServerProcess(tmp_path / "server", config).start()
    source = random.Random(1)
    load = QuietLoad([server], tmp_path / "load", QUIET)
    try:
        load.start()
        load.wait_progress()
        for _ in range(QUIET_KILLS):
            wait_for_quiet_progress(load)
            elapse("the kill comes at any time", source.uniform(*LOAD_S))
            server.kill()
            assert list(server.data.glob("log/journal/*/*.jnl")), "nothing to replay"
            server.start()
            load.wait_progress()
        load.stop()
        load.read_all(server, tmp_path / "load" / "final.jsonl")
    finally:
        load.stop()
        server.stop()
    history = History.load(sorted((tmp_path / "load").glob("*.jsonl")))
    assert sum(load.answered) > QUIET + 10 * QUIET_KILLS, "hardly any load"
    assert [str(anomaly) for anomaly in check(history)] == []
    assert not list(server.data.glob("log/journal/*/*.jnl")), "a journal did not end"
