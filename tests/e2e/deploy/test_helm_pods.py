"""Rendered pods run: their commands, volumes, probes and preStop, as processes of this machine."""

import base64
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cluster_processes import QUICK_START, rest_get
from tests.conftest import RunningBackends
from tests.e2e.deploy.chart import Document, render
from tests.e2e.deploy.pod_process import PodProcess
from tests.e2e.sdk.conftest import config_of
from tests.server_process import ROOT_KEY, ServerProcess
from tests.tls_files import TlsFolder
from tests.waiting import eventually

from opentalos.sdk import ClientConfig, SimpleConsumer, SimpleProducer, TalosAdmin

KEYS = {"root-key": f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"}
DATA = "/var/lib/opentalos"
QUICKLY = {"endpointsSeconds": 1}
DRAIN_S = 40  # the last pod of all has nowhere to move its partitions, and waits that long
TOPIC = "orders"
PARTITIONS = 4
PUTS_BETWEEN = 20


@contextmanager
def running(folder: Path, values: Document, **files: dict[str, str]) -> Iterator[PodProcess]:
    pod = PodProcess(folder, render(values), files={"opentalos-keys": KEYS, **files})
    try:
        yield pod.start()
    finally:
        pod.kill()


def test_a_pod_serves_until_sigterm_and_its_volume_keeps_the_messages(tmp_path: Path) -> None:
    with running(tmp_path, {"stop": QUICKLY}) as pod:
        config = config_of(pod.url)
        with TalosAdmin(config) as admin:
            admin.topics.create(TOPIC, partitions=1)

        def put_once_more() -> None:
            eventually("the pod is still ready", lambda: pod.probe("readinessProbe"))
            with SimpleProducer(config, TOPIC, 0) as producer:
                producer.put([b"after preStop"])

        pod.delete(before_term=put_once_more)
        assert not pod.probe("livenessProbe")
        data = pod.mounted(DATA) / "data"
        assert data.stat().st_mode & 0o777 == 0o700  # in a volume that a group may write to
        pod.start()
        with SimpleConsumer(config, TOPIC) as consumer:
            assert [record.data for record in consumer.fetch(0, 0)] == [b"after preStop"]


@pytest.mark.parametrize("certificates", ["none", "optional", "required"])
def test_probes_reach_a_port_with_tls(tmp_path: Path, certificates: str) -> None:
    made = TlsFolder(tmp_path / "made")
    secret = {"tls.crt": made.cert, "tls.key": made.key, "ca.crt": made.ca}
    values: Document = {
        "tls": {"secretName": "t", "clientCertificates": certificates}, "stop": QUICKLY,
    }  # fmt: skip
    texts = {name: path.read_text() for name, path in secret.items()}
    with running(tmp_path / "pod", values, t=texts) as pod:
        assert pod.process is not None
        eventually("the pod is alive", lambda: pod.probe("livenessProbe"))
        pod.process.send_signal(signal.SIGSTOP)
        assert not pod.probe("livenessProbe")
        pod.process.send_signal(signal.SIGCONT)
        pod.delete()


class Load:
    """Puts numbered messages to all partitions in turn until it is stopped; a put that fails ends
    it, and ``stop`` raises that."""

    def __init__(self, config: ClientConfig) -> None:
        self.count = 0
        self._config = config
        self._error: BaseException | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> int:
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self.count

    def wait_progress(self, puts: int) -> None:
        """So many more are done."""
        wanted = self.count + puts

        def done() -> bool:
            assert self._thread.is_alive(), self._error
            return self.count >= wanted

        eventually("puts continue", done, state=lambda: f"{self.count} of {wanted}")

    def _run(self) -> None:
        producers = [SimpleProducer(self._config, TOPIC, number) for number in range(PARTITIONS)]
        try:
            while not self._over.is_set():
                producers[self.count % PARTITIONS].put([b"%d" % self.count])
                self.count += 1
        except BaseException as error:
            self._error = error
        finally:
            for producer in producers:
                producer.close()


def cluster_pods(folder: Path, backends: RunningBackends, drain: bool) -> list[PodProcess]:
    name = f"h{os.urandom(5).hex()}"
    documents = render({
        "mode": "cluster", "replicas": 2,
        "storage": {
            "files": f"{backends.hdfs_url}/{name}",
            "meta": f"zookeeper://{backends.zookeeper_hosts}/{name}",
            "rows": f"{backends.hbase_url}/{name}",
        },
        "hadoopConfigMap": "hadoop",
        "stop": {**QUICKLY, "drain": drain, "drainSeconds": DRAIN_S},
        "config": {
            "storage": {"open_timeout_s": 120},
            "cluster": {"stable_after_s": 1, "stop_s": 20, "restart_s": 90},
            "hdfs": {"replicas_min": 1},
            "jvm": {"jars": str(backends.jars), "heap_mb": 128},
        },
    })  # fmt: skip
    key = base64.b64encode(os.urandom(32)).decode()
    hadoop = {path.name: path.read_text() for path in backends.hdfs_conf_dir.glob("*.xml")}
    files = {"opentalos-keys": {**KEYS, "cluster-key": key}, "hadoop": hadoop}
    return [
        PodProcess(folder / f"pod-{number}", documents, number, files, QUICK_START)
        for number in range(2)
    ]


def held(asked: PodProcess, name: str) -> int:
    """Partitions that a server of the cluster has, as another one says."""
    status = rest_get(ServerProcess(asked.folder, port=asked.port), "/rest/v1/cluster")
    return sum(server["partitions"] for server in status["servers"] if server["name"] == name)


def replace_pod(pod: PodProcess, other: PodProcess, load: Load, drain: bool) -> None:
    """As an update does. AssertionError: preStop left another number of partitions than it says."""
    eventually(f"{pod.name} has partitions", lambda: held(other, pod.name) > 0)

    def look() -> None:
        left = held(other, pod.name)
        assert (left == 0) is drain, left

    pod.delete(before_term=look)
    load.wait_progress(PUTS_BETWEEN)
    pod.start()


@pytest.mark.backend
@pytest.mark.parametrize("drain", [False, True])
def test_a_rolling_restart_of_a_cluster_fails_no_put(
    backends: RunningBackends, tmp_path: Path, drain: bool
) -> None:
    pods = cluster_pods(tmp_path, backends, drain)
    config = config_of(*(pod.url for pod in pods))
    try:
        for pod in pods:
            pod.start()
        with TalosAdmin(config) as admin:
            admin.topics.create(TOPIC, partitions=PARTITIONS)
        load = Load(config)
        try:
            replace_pod(pods[0], pods[1], load, drain)
            replace_pod(pods[1], pods[0], load, drain)
        finally:
            count = load.stop()
        with SimpleConsumer(config, TOPIC) as consumer:
            stored = sum(offsets.next for offsets in consumer.offsets().values())
        assert stored == count
        for pod in pods:
            pod.delete()
    finally:
        for pod in pods:
            pod.kill()
