"""A topic of 10,000 partitions, where the operator allows it: every call works, memory is small."""

import base64
import http.client
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.cluster_processes import rest_get
from tests.raw_client import RawClient, RawTopic, TalosError, idl
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import limit_s

from opentalos.model.limits import PARTITIONS_MAX

CONFIG = f"[topic]\npartitions_max = {PARTITIONS_MAX}\n"
PUT_TO = (0, 4_711, PARTITIONS_MAX - 1)
BYTES_PER_PARTITION_MAX = 8_000  # of memory, once a call has asked for all of them
METRICS_BYTES_MAX = 100_000
INVALID_PARAMS = 16


def memory_bytes(server: ServerProcess) -> int:
    """What the process has in memory."""
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    (size,) = (line.split()[1] for line in lines if line.startswith("VmRSS"))
    return int(size) * 1024


def check_described(client: RawClient, topic: RawTopic) -> None:
    """Description, addresses and offsets name every partition, on both protocols."""
    described = client.call(
        "topic", "getDescribeInfo", idl("topic").GetDescribeInfoRequest(topicName=topic.name)
    )
    assert described.partitionNumber == PARTITIONS_MAX
    wanted = idl("message").GetScheduleInfoRequest(topicTalosResourceName=topic.resource)
    assert len(client.call("message", "getScheduleInfo", wanted).scheduleInfo) == PARTITIONS_MAX
    wanted = idl("message").GetTopicOffsetRequest(topicTalosResourceName=topic.resource)
    offsets = client.call("message", "getTopicOffset", wanted).offsetInfoList
    assert [info.partitionId for info in offsets] == list(range(PARTITIONS_MAX))
    assert {info.partitionId for info in offsets if info.endOffset == 0} == set(PUT_TO)


def check_shown(server: ServerProcess) -> None:
    """So does REST."""
    shown = rest_get(server, "/rest/v1/topics/wide")
    assert {state["partition"] for state in shown["states"] if state["messages"]} == set(PUT_TO)
    assert len(shown["states"]) == PARTITIONS_MAX


def metrics(server: ServerProcess) -> bytes:
    """The page that is scraped."""
    pair = base64.b64encode(f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}".encode()).decode()
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=limit_s())
    with closing(connection):
        connection.request("GET", "/metrics", headers={"Authorization": f"Basic {pair}"})
        return connection.getresponse().read()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path, CONFIG).start()
    yield process
    process.kill()


def test_a_topic_of_ten_thousand_partitions_is_described_served_and_there_again(
    server: ServerProcess,
) -> None:
    with closing(RawClient(server.port)) as client:
        with pytest.raises(TalosError, match="1 to 10000") as refused:
            RawTopic.create(client, "wider", partitions=PARTITIONS_MAX + 1)
        assert refused.value.code == INVALID_PARAMS
        before = memory_bytes(server)
        topic = RawTopic.create(client, "wide", partitions=PARTITIONS_MAX)
        for number in PUT_TO:
            topic.put(b"kept", partition=number)
        check_described(client, topic)
        check_shown(server)
        assert memory_bytes(server) - before < BYTES_PER_PARTITION_MAX * PARTITIONS_MAX
        assert len(metrics(server)) < METRICS_BYTES_MAX
    server.kill()
    server.start()
    with closing(RawClient(server.port)) as client:
        again = RawTopic(client, topic.name, topic.resource)
        check_described(client, again)
        for number in PUT_TO:
            assert again.get(0, partition=number).messageNumber == 1
