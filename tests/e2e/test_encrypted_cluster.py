"""Encryption at rest of a cluster: what real HDFS, HBase and ZooKeeper have of it, and its keys."""

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kazoo.client import KazooClient
from tests.cluster_processes import ClusterProcesses
from tests.conftest import RunningBackends
from tests.e2e.sdk.conftest import config_of
from tests.e2e.test_encryption import configure, key_file, section
from tests.e2e.test_serve import rest
from tests.server_process import ServerProcess
from tests.waiting import eventually, limit_s

from opentalos.adapters.hbase import open_hbase_row_store
from opentalos.adapters.hdfs import open_hdfs_file_store
from opentalos.model.limits import HbaseLimits, HdfsLimits, JvmLimits
from opentalos.sdk import SimpleConsumer, SimpleProducer

pytestmark = pytest.mark.backend

TOPIC, CHANGES, TABLE = "orders-of-the-cluster", "changes", "people"
PARTITIONS = 4  # so that each of two servers has some
PLAIN = b"from before encryption was enabled"
SECRET = b"a secret that no backend may have"
ROW_KEY, CITY = "person-1", "a secret city"
FILE_BYTES_MAX = 64 << 20


class Stored(NamedTuple):
    """All bytes that the backends have of a cluster; HBase also what was deleted or replaced."""

    hdfs: bytes
    hbase: bytes
    zookeeper: bytes

    def having(self, text: bytes) -> set[str]:
        """Backends that have this text anywhere."""
        return {name for name, content in self._asdict().items() if text in content}


async def hdfs_of(cluster: ClusterProcesses) -> bytes:
    backends = cluster.backends
    limits = HdfsLimits(conf_dir=str(backends.hdfs_conf_dir))
    url = f"{backends.hdfs_url}/{cluster.name}"
    store = await open_hdfs_file_store(url, JvmLimits(jars=str(backends.jars)), limits)
    try:
        found = []
        for path in await store.list(""):
            content = await store.read(path, position=0, bytes_max=FILE_BYTES_MAX)
            assert len(content) < FILE_BYTES_MAX, path
            found.append(content)
        return b"\n".join(found)
    finally:
        await store.close()


async def hbase_of(cluster: ClusterProcesses) -> bytes:
    """Rows, columns and values of all cells of all tables, as HBase's own client reads them."""
    backends = cluster.backends
    url = f"{backends.hbase_url}/{cluster.name}"
    store = await open_hbase_row_store(url, JvmLimits(jars=str(backends.jars)), HbaseLimits())
    client: Any = store._client

    def cells() -> Iterator[bytes]:
        with client._connection.getAdmin() as admin:
            names = list(admin.listTableNamesByNamespace(cluster.name))
        assert names
        for name in names:
            scan = client._scan().setRaw(True).readAllVersions()
            with (
                client._connection.getTable(name) as table,
                table.getScanner(scan) as scanner,
            ):
                while (result := scanner.next()) is not None:
                    yield from (bytes(client._copy_cell(cell)) for cell in result.rawCells())

    try:
        return await asyncio.to_thread(lambda: b"\n".join(cells()))
    finally:
        await store.close()


def zookeeper_of(cluster: ClusterProcesses) -> bytes:
    client = KazooClient(f"{cluster.backends.zookeeper_hosts}/{cluster.name}")
    client.start(limit_s())
    try:
        found, nodes = [], ["/"]
        while nodes:
            node = nodes.pop()
            content, _ = client.get(node)
            found += [node.encode(), content]
            nodes += [f"{node.rstrip('/')}/{name}" for name in client.get_children(node)]
        return b"\n".join(found)
    finally:
        client.stop()
        client.close()


def stored(cluster: ClusterProcesses) -> Stored:
    async def read() -> Stored:
        return Stored(await hdfs_of(cluster), await hbase_of(cluster), zookeeper_of(cluster))

    return asyncio.run(read())


@pytest.fixture
def cluster(backends: RunningBackends, tmp_path: Path) -> Iterator[ClusterProcesses]:
    made = ClusterProcesses(tmp_path / "cluster", backends, ("s1", "s2"))
    yield made
    made.close()


def restart(cluster: ClusterProcesses, text: str, *names: str) -> None:
    """Start servers, which may run, with this configuration of encryption."""
    chosen = names or tuple(cluster.names)
    cluster.stop(*chosen)
    for name in chosen:
        configure(cluster.servers[name], text)
    cluster.start(*chosen)
    cluster.wait_settled()


def send(server: ServerProcess, *messages: bytes) -> None:
    """Put all to each partition."""
    with SimpleProducer(config_of(server.url), TOPIC) as producer:
        for partition in range(PARTITIONS):
            producer.put(list(messages), partition=partition)


def received(server: ServerProcess, topic: str = TOPIC) -> list[list[bytes]]:
    """Messages of each partition."""
    found: list[list[bytes]] = []
    with SimpleConsumer(config_of(server.url), topic) as consumer:
        for partition, offsets in sorted(consumer.offsets().items()):
            messages: list[bytes] = []
            while len(messages) < offsets.next:
                messages += [item.data for item in consumer.fetch(partition, len(messages))]
            found.append(messages)
    return found


def city(server: ServerProcess) -> str:
    asked = {"key": {"k": ROW_KEY}}
    status, found = rest(server, "POST", f"/rest/v1/tables/{TABLE}/rows/get", asked)
    assert status == 200, found
    return str(found["row"]["city"])


def move_to(server: ServerProcess, name: str) -> None:
    row = {"row": {"k": ROW_KEY, "city": name}}
    status, said = rest(server, "POST", f"/rest/v1/tables/{TABLE}/rows/put", row)
    assert status == 200, said


def rotate(server: ServerProcess, *others: ServerProcess) -> None:
    """New data keys; returns when the other servers know them."""

    def versions(of: ServerProcess) -> int:
        return int(rest(of, "GET", "/rest/v1/encryption")[1]["versions"])

    before = versions(server)
    assert rest(server, "POST", "/rest/v1/encryption/rotation", {})[0] == 200
    now = versions(server)
    assert now > before

    def known() -> bool:
        return all(versions(other) == now for other in others)

    eventually("the other servers know the new keys", known)


def make_topic_and_table(server: ServerProcess) -> None:
    for name, partitions in ((TOPIC, PARTITIONS), (CHANGES, 1)):
        topic = {"name": name, "partitions": partitions}
        assert rest(server, "POST", "/rest/v1/topics", topic)[0] == 201
    columns = {"k": "string", "city": "string"}
    table = {"name": TABLE, "key": ["k"], "columns": columns, "streams": {CHANGES: {}}}
    status, said = rest(server, "POST", "/rest/v1/tables", table)
    assert status == 201, said


def test_no_backend_has_plaintext_and_keys_are_rotated_while_servers_run(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    s1, s2 = cluster.servers["s1"], cluster.servers["s2"]
    key, next_key = key_file(tmp_path, "key"), key_file(tmp_path, "next")
    everything = [[PLAIN]] * PARTITIONS

    def sent(server: ServerProcess, message: bytes) -> None:
        send(server, message)
        everything[:] = [[*messages, message] for messages in everything]
        for each in (s1, s2):
            assert received(each) == everything

    # The rounds of docs/operating/encryption.md: first all have the key, then all use it.
    restart(cluster, section(key_file=key).replace("\n", "\nenabled = false\n", 1), "s1")
    make_topic_and_table(s1)
    send(s1, PLAIN)
    restart(cluster, section(key_file=key, other_key_file=next_key))
    sent(s1, SECRET)
    move_to(s1, CITY)
    rotate(s1, s2)
    sent(s2, SECRET + b" 2")
    assert city(s1) == city(s2) == CITY
    # The next server key: one server wraps with it, the other does so later.
    restart(cluster, section(key_file=next_key, other_key_file=key), "s1")
    rotate(s1, s2)
    sent(s2, SECRET + b" 3")
    move_to(s2, CITY + " 2")
    assert city(s1) == city(s2) == CITY + " 2"
    cluster.kill("s2")
    restart(cluster, section(key_file=next_key), "s2")
    sent(s1, SECRET + b" 4")
    assert city(s1) == city(s2) == CITY + " 2"
    changes = received(s1, CHANGES)[0]
    assert len(changes) >= 2  # the kill may repeat some
    assert all(CITY.encode() in change for change in changes)
    # A server without the key refuses to start, and harms nothing.
    cluster.stop("s1")
    configure(s1, "")
    with pytest.raises(AssertionError, match=r"not ready \(exit 1\)"):
        s1.start()
    assert "set [encryption] key_file or key_command" in s1.stderr()
    cluster.stop()
    found = stored(cluster)
    assert found.having(PLAIN) == {"hdfs"}  # the search finds what is there
    assert found.having(ROW_KEY.encode()) == {"hbase"}
    assert "zookeeper" in found.having(TOPIC.encode())
    secrets = [SECRET, CITY.encode()]
    for path in (key, next_key):
        secrets += [path.read_bytes(), base64.b64decode(path.read_bytes())]
    assert [found.having(text) for text in secrets] == [set()] * len(secrets)
