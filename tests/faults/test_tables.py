"""Servers and backends that die or pause while the third-party SDS client mutates a table.

The table has two streams; after each fault both must rebuild it.
"""

from pathlib import Path

import pytest
from tests.cluster_processes import SESSION_S, ClusterProcesses
from tests.conftest import RunningBackends
from tests.faults.shard_owners import shard_owner
from tests.faults.table_followers import Followers
from tests.table_load import PARTITIONS, SHARDS, TableLoad, judged, table_load
from tests.waiting import elapse

# Of ``make faults``: 20 kills, each of which a table follows.
pytestmark = [pytest.mark.backend, pytest.mark.timeout(1200)]

KILLS_FULL = 20
ROUNDS_FULL = 5
PAUSE_S = 0.05  # between two calls of one thread: two cores carry servers, backends and clients
LONGER_THAN_SESSION_S = SESSION_S + 2.0


def quiet(_text: str) -> None:
    """No progress lines."""


def owner_of(cluster: ClusterProcesses, load: TableLoad, number: int) -> str:
    """In turn who has a shard of the table, and a partition of one of its streams' topics."""
    kind, number = number % 2, number // 2
    if kind == 0:
        return shard_owner(cluster, load.uuid, number % SHARDS)
    return cluster.owners(load.resources[number % len(load.resources)])[number % PARTITIONS]


def test_kill_9_of_owners_of_shards_and_of_the_topics_partitions(
    cluster: ClusterProcesses, tmp_path: Path, full: bool
) -> None:
    """Followers keep up meanwhile; one of each stream begins after the kills."""
    servers = list(cluster.servers.values())
    load = TableLoad(servers, tmp_path, PAUSE_S)
    followers = Followers(load)
    with judged(load, "tables: kill -9 of owners", last_harm=followers.check):
        followers.begin()
        followers.wait_begun()
        for number in range(KILLS_FULL if full else 2):
            victim = owner_of(cluster, load, number)
            cluster.kill(victim)
            load.wait_progress()  # before it is back
            cluster.start(victim)
            cluster.wait_settled()
        followers.begin()


def test_kill_9_of_all_servers(cluster: ClusterProcesses, tmp_path: Path, full: bool) -> None:
    servers = list(cluster.servers.values())
    with table_load(servers, tmp_path, "tables: kill -9 of all servers", PAUSE_S) as load:
        for _ in range(ROUNDS_FULL if full else 1):
            cluster.kill()
            cluster.start()
            load.wait_progress()


def test_the_region_server_restarts(
    cluster: ClusterProcesses, backends: RunningBackends, tmp_path: Path, full: bool
) -> None:
    hbase = backends.fleet.hbase
    servers = list(cluster.servers.values())
    with table_load(servers, tmp_path, "tables: HBase restarted", PAUSE_S) as load:
        for _ in range(ROUNDS_FULL if full else 1):
            hbase.daemon("hbase").kill()
            hbase.start_daemon("hbase")
            hbase.wait_ready(quiet)
            load.wait_progress()


def test_a_server_that_was_paused_longer_than_its_session(
    cluster: ClusterProcesses, tmp_path: Path, full: bool
) -> None:
    servers = list(cluster.servers.values())
    with table_load(servers, tmp_path, "tables: SIGSTOP longer than the session", PAUSE_S) as load:
        for number in range(2 * ROUNDS_FULL if full else 2):
            victim = owner_of(cluster, load, number)
            with cluster.paused(victim):
                elapse("its session ends while it is paused", LONGER_THAN_SESSION_S)
                load.wait_progress()  # with another owner
            load.wait_progress()
            cluster.wait_settled()
