"""A real YARN with HDFS: the documented submissions, and rows that are exact over kills."""

import json
import os
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from tests.conftest import RunningBackends
from tests.server_process import ROOT_KEY
from tests.spark.archived import PARTITIONS, PUT, ArchivedTopic
from tests.spark.conftest import TalosServer
from tests.spark.yarn.yarn_cluster import YarnCluster
from tests.waiting import limit_s

from opentalos.backends.hadoop.hdfs import HdfsBackend
from opentalos.backends.hadoop.yarn import YarnBackend
from opentalos.backends.jars import fetch

pytestmark = pytest.mark.backend
TOPIC = "orders-on-yarn"
DOCUMENTED_SIZES = {"executor.instances=4": "executor.instances=2", "cores=4": "cores=1"}
FASTER = "--trigger 0 --messages-per-trigger 1000"  # more batches in less time
OTHERS = 0o077


@dataclass(frozen=True)
class Ended:
    """An application that has run: YARN's verdict, and what was seen of it."""

    application: str
    state: tuple[str, str]
    nodes: list[str]
    seen: str  # command lines and environments of its containers


@dataclass(frozen=True)
class Runs:
    """One archive, made by two applications."""

    topic: ArchivedTopic
    cluster: Ended
    client: Ended
    key_modes: list[int]  # of the files with the key in containers
    with_secret: list[Path]  # other files of containers that have it


@pytest.fixture(scope="module")
def yarn(
    server: TalosServer, backends: RunningBackends, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[YarnCluster]:
    backend = YarnBackend(backends.fleet.home)
    fetch(backend.kind, print)
    backend.compile_less()
    started = YarnCluster(tmp_path_factory.mktemp("yarn"), backend, server.key)
    try:
        backend.start(print, port=0)
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def runs(server: TalosServer, yarn: YarnCluster, backends: RunningBackends) -> Runs:
    """Cluster mode, its executor and then its driver killed; client mode takes the rest."""
    hdfs = f"{backends.hdfs_url}/{yarn.folder.name}-{os.urandom(4).hex()}"
    topic = ArchivedTopic(server, TOPIC, f"delta+{hdfs}/archive")
    topic.put_more()
    replaced = {
        "http://talos-1:9420,http://talos-2:9420": server.url,
        "hdfs://namenode:9820": hdfs,
        "orders.*": f"{TOPIC}.*",
        **DOCUMENTED_SIZES,
    }
    with yarn.submitted("cluster", replaced, FASTER) as submitted:
        application = yarn.application(submitted)
        yarn.wait_for_executors(submitted)
        topic.wait_for(1, submitted)
        seen = shown(yarn)
        key_modes = [
            path.stat().st_mode for path in yarn.container_files() if path.name == "talos.key"
        ]
        lost = yarn.executors()[0]
        yarn.kill(lost)
        topic.put_more()
        topic.wait_for(topic.whole, submitted)
        assert lost not in yarn.executors()
        topic.put_more()
        topic.wait_for((topic.put - PUT) * PARTITIONS + 1, submitted)
        yarn.kill(yarn.driver())
        topic.put_more()
        topic.wait_for(topic.whole, submitted)
        with_secret = [path for path in yarn.container_files() if has_secret(path)]
        yarn.end(application)
        assert submitted.wait() != 0
    cluster = Ended(application, yarn.state(application), yarn.nodes(application), seen)
    topic.put_more()
    with yarn.submitted("client", replaced, FASTER) as submitted:
        application = yarn.application(submitted)
        assert submitted.wait() == 0, submitted.said()
    client = Ended(application, yarn.state(application), yarn.nodes(application), "")
    return Runs(topic, cluster, client, key_modes, with_secret)


def has_secret(path: Path) -> bool:
    with suppress(FileNotFoundError):  # of a container that ended meanwhile
        return path.name != "talos.key" and ROOT_KEY.secret.encode() in path.read_bytes()
    return False


def shown(yarn: YarnCluster) -> str:
    """What others see of processes in containers."""
    return json.dumps([[it.cmdline(), it.environ()] for it in yarn.containers("")])


def test_each_message_is_archived_once_over_kills_of_an_executor_and_of_the_driver(
    runs: Runs,
) -> None:
    assert runs.topic.put == 5 * PUT
    runs.topic.check()


def test_yarn_restarts_a_killed_driver_on_another_node(runs: Runs) -> None:
    first, second = runs.cluster.nodes
    assert first != second
    assert runs.cluster.state == ("KILLED", "KILLED")  # in the end, by its user


def test_a_run_that_ends_is_a_success_for_yarn(runs: Runs) -> None:
    assert runs.client.state == ("FINISHED", "SUCCEEDED")
    assert len(runs.client.nodes) == 1


def test_the_secret_is_only_in_its_file_which_only_its_user_reads(runs: Runs) -> None:
    assert "talos.key" in runs.cluster.seen
    assert ROOT_KEY.secret not in runs.cluster.seen
    assert runs.with_secret == []
    assert runs.key_modes
    assert not any(mode & OTHERS for mode in runs.key_modes)


def test_no_staging_folder_with_the_key_is_left(runs: Runs, backends: RunningBackends) -> None:
    hdfs: HdfsBackend = backends.fleet.hdfs
    folder = f"/user/{psutil.Process().username()}/.sparkStaging"
    url = f"http://127.0.0.1:{hdfs.ports['nn-http']}/webhdfs/v1{folder}?op=LISTSTATUS"
    with urllib.request.urlopen(url, timeout=limit_s()) as reply:
        left = {item["pathSuffix"] for item in json.load(reply)["FileStatuses"]["FileStatus"]}
    assert left.isdisjoint({runs.cluster.application, runs.client.application})
