"""Servers that are killed or paused under load of the official SDK."""

from pathlib import Path

import pytest
from tests.cluster_load import traffic
from tests.cluster_processes import SESSION_S, ClusterProcesses
from tests.waiting import elapse

# Of ``make faults``: 50 pauses of 7 s each, 20 kills.
pytestmark = [pytest.mark.backend, pytest.mark.timeout(1200)]

KILLS_FULL = 20
PAUSES_FULL = 50
LONGER_THAN_SESSION_S = SESSION_S + 2.0


def test_kill_9_of_an_owner(cluster: ClusterProcesses, tmp_path: Path, full: bool) -> None:
    with traffic(cluster, tmp_path, "kill -9 of an owner", "flushed") as load:
        for _ in range(KILLS_FULL if full else 2):
            victim = load.owner()
            cluster.kill(victim)
            load.wait_progress()  # before it is back
            cluster.start(victim)
            cluster.wait_settled()


def test_kill_9_of_the_controller(cluster: ClusterProcesses, tmp_path: Path, full: bool) -> None:
    with traffic(cluster, tmp_path, "kill -9 of the controller") as load:
        for _ in range(KILLS_FULL if full else 1):
            victim = cluster.controller()
            cluster.kill(victim)
            load.wait_progress()
            cluster.start(victim)
            cluster.wait_settled()
            assert cluster.controller() != victim, "a server that joins is not the controller"


def test_kill_9_of_all(cluster: ClusterProcesses, tmp_path: Path, full: bool) -> None:
    with traffic(cluster, tmp_path, "kill -9 of all") as load:
        for _ in range(KILLS_FULL if full else 1):
            cluster.kill()
            cluster.start()
            load.wait_progress()


def test_an_owner_that_was_paused_longer_than_its_session(
    cluster: ClusterProcesses, tmp_path: Path, full: bool
) -> None:
    with traffic(cluster, tmp_path, "SIGSTOP longer than the session") as load:
        for _ in range(PAUSES_FULL if full else 2):
            victim = load.owner()
            with cluster.paused(victim):
                # Waits in its socket: the first thing it sees after SIGCONT.
                load.put_at(victim, 0)
                elapse("its session ends while it is paused", LONGER_THAN_SESSION_S)
                load.wait_progress()  # with another owner
            load.wait_progress()
            cluster.wait_settled()


def test_a_controller_that_was_paused_longer_than_its_session(
    cluster: ClusterProcesses, tmp_path: Path, full: bool
) -> None:
    with traffic(cluster, tmp_path, "SIGSTOP of the controller") as load:
        for _ in range(KILLS_FULL if full else 1):
            victim = cluster.controller()
            with cluster.paused(victim):
                elapse("its session ends while it is paused", LONGER_THAN_SESSION_S)
                load.wait_progress()
            load.wait_progress()
            cluster.wait_settled()
