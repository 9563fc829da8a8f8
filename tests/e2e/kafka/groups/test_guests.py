"""Guests in groups: who may read a topic without a key may share it in a group, as with Talos."""

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.e2e.kafka.clients import kafka_address
from tests.e2e.kafka.groups.conftest import CONFIG
from tests.e2e.kafka.groups.kafka_clients import held, read, until
from tests.e2e.rest.client import rest
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import limit_s


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_guests_share_what_they_are_granted_and_nothing_else(tmp_path: Path, protocol: str) -> None:
    server = ServerProcess(tmp_path, f"[auth]\nanonymous = true\n{CONFIG}").start()
    try:
        for name in ("open", "closed"):
            assert rest(server, "POST", "topics", {"name": name, "partitions": 2}).status == 201
        grant = {"permissions": ["GET_MESSAGE"]}
        assert rest(server, "PUT", "topics/open/permissions/guest", grant).status in (200, 201, 204)
        address = kafka_address(server)
        settings = {
            "bootstrap.servers": address,
            "group.id": "visitors",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        first, second = Consumer(settings), Consumer(settings)
        for member in (first, second):
            member.subscribe(["root/open"])
        shared = "both members share the partitions"
        until(shared, [first, second], lambda: len(held(first)) == len(held(second)) == 1)
        fill(address)  # not before: waiting for partitions passes over messages
        read([first, second], 20)
        second.close()
        until("the remaining member has both partitions", [first], lambda: len(held(first)) == 2)
        parts = [TopicPartition("root/open", number) for number in range(2)]
        assert [part.offset for part in first.committed(parts, limit_s())] == [10, 10]
        first.close()
        stranger = Consumer({**settings, "group.id": "strangers"})
        with pytest.raises(KafkaException) as refused:
            stranger.commit(offsets=[TopicPartition("root/closed", 0, 0)], asynchronous=False)
        assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        stranger.close()
        groups = rest(server, "GET", "topics/open/groups").document
        assert "guest/visitors" in str(groups), "the owner sees whose group it is"
    finally:
        server.stop()


def fill(address: str) -> None:
    login: dict[str, Any] = {
        "bootstrap.servers": address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": ROOT_KEY.key_id,
        "sasl.password": ROOT_KEY.secret,
    }
    producer = Producer(login)
    for number in range(20):
        producer.produce("open", f"v{number}", partition=number % 2)
    assert producer.flush(limit_s()) == 0
