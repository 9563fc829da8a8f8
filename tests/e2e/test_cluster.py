"""Three real servers over real HDFS, ZooKeeper and HBase; how they refuse what cannot be right."""

import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cluster_processes import ClusterProcesses
from tests.compat.conftest import SDK_PYTHON, Sdk
from tests.conftest import RunningBackends
from tests.raw_client import RawClient, RawTopic, TalosError, idl
from tests.server_process import ROOT_KEY, TALOS, ServerProcess
from tests.waiting import completed, elapse, eventually

from opentalos.model.limits import TopicLimits

pytestmark = pytest.mark.backend

PARTITIONS = 6
FORWARDED = {"galaxy.talos.client.is.auto.location": False}  # the SDK calls its endpoint only


@pytest.fixture(scope="module")
def cluster(
    backends: RunningBackends, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterProcesses]:
    made = ClusterProcesses(tmp_path_factory.mktemp("cluster"), backends)
    try:
        made.start()
        made.wait_settled()
        yield made
    finally:
        made.close()


def sdk_of(cluster: ClusterProcesses, name: str) -> Sdk:
    assert SDK_PYTHON.exists(), "no .sdk-venv: make setup"
    return Sdk(cluster.servers[name])


@pytest.fixture
def clients(cluster: ClusterProcesses) -> Iterator[dict[str, RawClient]]:
    """One of each server."""
    made = {name: RawClient(server.port) for name, server in cluster.servers.items()}
    yield made
    for client in made.values():
        client.close()


def made_topic(clients: Mapping[str, RawClient], name: str) -> dict[str, RawTopic]:
    """A new topic, as a client of each server sees it."""
    first = RawTopic.create(clients["s1"], name, partitions=PARTITIONS, durability="flushed")
    return {item: RawTopic(client, name, first.resource) for item, client in clients.items()}


def put_at_last(topic: RawTopic, partition: int, payload: bytes) -> None:
    """Put until it is done; what is not done or unknown meanwhile is tried again."""

    def done() -> bool:
        try:
            topic.put(payload, partition=partition)
        except (TalosError, OSError):
            topic.client.close()
            return False
        return True

    eventually(f"a put to partition {partition} is done", done)


def stored(topic: RawTopic, partition: int) -> int:
    """Messages of a partition; one reply ends with a segment."""
    got = topic.get(0, partition=partition)
    return int(got.messageNumber + got.unHandledMessageNumber)


def resource_of(topic: RawTopic) -> str:
    return str(topic.resource.topicTalosResourceName)


def forwarded(cluster: ClusterProcesses) -> int:
    """Requests that all servers passed on so far."""
    servers = cluster.status()["servers"]
    return sum(server["counters"]["forwarded_requests"] for server in servers)


def talos(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return completed([TALOS, *arguments])


def as_root(cluster: ClusterProcesses, name: str) -> tuple[str, ...]:
    key = f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}"
    return ("--url", cluster.servers[name].url, "--as", key)


# --- working -----------------------------------------------------------------------------------


def test_the_official_sdk_works_at_the_owners_and_through_any_server(
    cluster: ClusterProcesses,
) -> None:
    sdk = sdk_of(cluster, "s1")
    payloads = [f"message {number}" for number in range(20)]
    passed_on: dict[str, int] = {}
    for topic, config in (("addressed", {}), ("forwarded", FORWARDED)):
        sdk.topic(topic, partitions=PARTITIONS)
        before = forwarded(cluster)
        for partition in range(PARTITIONS):
            settings: dict[str, Any] = {"topic": topic, "partition": partition, "config": config}
            (read,) = sdk.run("simple_roundtrip", payloads=payloads, batch=4, start=0, **settings)
            assert read["payloads"] == payloads
            assert read["offsets"] == list(range(len(payloads)))
        (sent,) = sdk.run("talos_producer", topic=topic, payloads=payloads, config=config)
        assert sent == {"succeeded": len(payloads), "failed": []}
        passed_on[topic] = forwarded(cluster) - before
    assert passed_on["forwarded"] > 2 * passed_on["addressed"], passed_on


def test_any_server_answers_for_every_partition_and_group(
    cluster: ClusterProcesses, clients: dict[str, RawClient]
) -> None:
    topics = made_topic(clients, "any-server")
    owners = cluster.owners(resource_of(topics["s1"]))
    assert len(set(owners.values())) > 1, owners
    for name, topic in topics.items():
        for partition in range(PARTITIONS):
            put = topic.put(b"x", partition=partition)
            assert bool(put.isTransfer) is (owners[partition] != name)
    for number, (name, topic) in enumerate(topics.items()):
        for partition in range(PARTITIONS):
            assert stored(topic, partition) == len(topics)
        unit = idl("consumer").ConsumeUnit("any-group", topic.resource, [number], f"worker-{name}")
        register = idl("consumer").LockWorkerRequest(unit)
        assert topic.client.call("consumer", "lockWorker", register).registerSuccess
        lock = idl("consumer").LockPartitionRequest(unit)
        locked = topic.client.call("consumer", "lockPartition", lock)
        assert locked.successPartitions == [number]
    request = idl("consumer").QueryWorkerRequest("any-group", topics["s2"].resource)
    held = topics["s2"].client.call("consumer", "queryWorker", request).workerMap
    assert held == {f"worker-{name}": [number] for number, name in enumerate(topics)}


def test_a_change_of_a_topic_is_seen_by_every_server(
    cluster: ClusterProcesses, clients: dict[str, RawClient]
) -> None:
    topics = made_topic(clients, "seen")
    resource = resource_of(topics["s1"])

    def seen(name: str) -> int:
        request = idl("topic").DescribeTopicRequest(topicName="seen")
        try:
            found = topics[name].client.call("topic", "describeTopic", request)
        except TalosError as error:
            return -error.code
        return int(found.topicAttribute.partitionNumber)

    def all_see(wanted: int) -> None:
        def views() -> set[int]:
            return {seen(name) for name in topics}

        what = "every server sees the change of the topic"
        eventually(what, lambda: views() == {wanted}, state=views)

    all_see(PARTITIONS)
    attribute = idl("topic").TopicAttribute(partitionNumber=PARTITIONS + 2)
    name = idl("topic").TopicTalosResourceName(resource)
    interval_s = TopicLimits().change_partition_interval_s
    elapse("a topic's partitions change at most so often", interval_s)
    topics["s2"].client.call(
        "topic", "changeTopicAttribute", idl("topic").ChangeTopicAttributeRequest(name, attribute)
    )
    all_see(PARTITIONS + 2)
    put_at_last(topics["s3"], PARTITIONS + 1, b"in a new partition")
    request = idl("topic").DeleteTopicRequest(name)
    topics["s3"].client.call("topic", "deleteTopic", request)
    all_see(-5)


def test_a_server_is_drained_while_it_serves(
    cluster: ClusterProcesses, clients: dict[str, RawClient]
) -> None:
    topics = made_topic(clients, "drained")
    for partition in range(PARTITIONS):
        topics["s1"].put(b"before", partition=partition)
    done = talos("cluster", "drain", "s2", *as_root(cluster, "s1"))
    assert done.returncode == 0, done.stderr
    assert "s2 is drained and can be stopped" in done.stdout
    assert "s2" not in cluster.owners(resource_of(topics["s1"])).values()
    for partition in range(PARTITIONS):
        put_at_last(topics["s2"], partition, b"after")
        assert stored(topics["s3"], partition) >= 2  # an unknown put may be there as well
    shown = talos("cluster", "status", "--topic", "drained", *as_root(cluster, "s3"))
    assert "draining" in shown.stdout, shown.stderr
    assert talos("cluster", "undrain", "s2", *as_root(cluster, "s3")).returncode == 0
    cluster.wait_settled()


def test_a_server_that_restarts_in_time_keeps_its_partitions(
    cluster: ClusterProcesses, clients: dict[str, RawClient]
) -> None:
    topics = made_topic(clients, "restarted")
    before = cluster.owners(resource_of(topics["s1"]), "s1")
    for partition in range(PARTITIONS):
        topics["s1"].put(b"before", partition=partition)
    cluster.stop("s3")
    assert cluster.owners(resource_of(topics["s1"]), "s1").keys() == before.keys()
    cluster.start("s3")
    cluster.wait_settled()
    assert cluster.owners(resource_of(topics["s1"]), "s1") == before
    for partition in range(PARTITIONS):
        put_at_last(topics["s1"], partition, b"after")


def test_a_killed_servers_partitions_are_served_again_with_everything(
    cluster: ClusterProcesses, clients: dict[str, RawClient]
) -> None:
    topics = made_topic(clients, "killed")
    for partition in range(PARTITIONS):
        topics["s1"].put(b"before", partition=partition)
    cluster.kill("s3")
    for partition in range(PARTITIONS):
        put_at_last(topics["s1"], partition, b"after")
        assert stored(topics["s2"], partition) >= 2
    cluster.start("s3")
    cluster.wait_settled()


# --- refused -----------------------------------------------------------------------------------


def another(
    cluster: ClusterProcesses, folder: Path, changes: Mapping[str, str], **settings: Any
) -> ServerProcess:
    """One more server with parts of the configuration replaced."""
    config = cluster.servers["s1"].config.replace('name = "s1"', 'name = "s9"')
    for old, new in changes.items():
        assert old in config
        config = config.replace(old, new)
    return ServerProcess(folder / "another", config, **settings)


def refusal(server: ServerProcess) -> str:
    """What a server says that does not start. AssertionError: it starts."""
    with pytest.raises(AssertionError, match=r"not ready \(exit 1\)"):
        server.start()
    text = server.stderr()
    assert "Traceback" not in text
    return text


def test_a_second_cluster_over_the_same_files_or_rows_is_refused(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    meta = f"{cluster.backends.zookeeper_hosts}/{cluster.name}"
    text = refusal(another(cluster, tmp_path, {meta: f"{meta}-other"}))
    assert f"{cluster.backends.hdfs_url}/{cluster.name} belongs to cluster" in text
    assert "has no cluster" in text


def test_files_that_are_not_the_clusters_are_refused(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    files = f"{cluster.backends.hdfs_url}/{cluster.name}"
    text = refusal(another(cluster, tmp_path, {files: f"{files}-other"}))
    assert f"{files}-other has no mark of cluster" in text


def test_another_key_and_a_taken_name_are_refused(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    key = tmp_path / "other.key"
    key.write_text("eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHg=\n")
    text = refusal(another(cluster, tmp_path, {str(cluster.folder / "cluster.key"): str(key)}))
    assert "this server's key differs from the cluster" in text
    text = refusal(another(cluster, tmp_path, {'name = "s9"': 'name = "s1"'}))
    assert "a server named s1 is alive at" in text


@pytest.mark.parametrize("backend", ["hdfs", "zookeeper", "hbase"])
def test_a_backend_that_is_not_there_is_named_until_the_start_is_given_up(
    cluster: ClusterProcesses, tmp_path: Path, backend: str
) -> None:
    address = {
        "hdfs": cluster.backends.hdfs_url.removeprefix("hdfs://"),
        "zookeeper": cluster.backends.zookeeper_hosts,
        "hbase": cluster.backends.hbase_url.removeprefix("hbase://"),
    }[backend]
    changes = {
        f"{backend}://{address}/": f"{backend}://127.0.0.1:1/",
        "open_timeout_s = 120.0": "open_timeout_s = 14.0",
    }
    if backend != "hdfs":  # which is opened first, and may take long on a busy machine
        files = f'"{cluster.backends.hdfs_url}/{cluster.name}"'
        changes[files] = f'"file://{tmp_path}/shared"\nfiles_shared = true'
    text = refusal(another(cluster, tmp_path, changes))
    assert f"waiting for {backend}://127.0.0.1:1/" in text
    assert f"talos: cannot reach {backend}://127.0.0.1:1/" in text


def test_a_user_without_rights_in_hdfs_is_refused(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    launcher = ("env", "HADOOP_USER_NAME=stranger", str(TALOS), "serve")
    text = refusal(another(cluster, tmp_path, {}, launcher=launcher))
    assert "stranger" in text
    assert "ermission" in text


def test_a_wrong_url_is_refused_before_anything_starts(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    for old, new, complaint in (
        ("hdfs://", "hdsf://", "files must be a URL that begins with file:// or hdfs://"),
        ("zookeeper://", "sqlite://", "need zookeeper:// meta"),
        ("hbase://", "sqlite://", "zookeeper:// meta needs hbase:// rows"),
    ):
        server = another(cluster, tmp_path, {old: new})
        assert complaint in refusal(server)
        assert not server.data.exists()


def test_the_storage_of_a_stopped_cluster_is_verified(cluster: ClusterProcesses) -> None:
    """The last test: it stops the cluster."""
    assert "servers run on this storage" in cluster.verify().stderr
    cluster.stop()
    done = cluster.verify()
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 problems" in done.stdout
