"""Our SDK beside the official one: in one consumer group, and each reading what the other wrote."""

import pytest
from tests.compat.conftest import LEASE_S, Sdk
from tests.compat.test_sdk_workers import PARTITIONS, Group, Worker, killed_at_the_end, produce
from tests.server_process import ROOT_KEY
from tests.waiting import eventually, limit_s

from opentalos.model.settings.partitioning import Partitioning
from opentalos.sdk import (
    Callbacks,
    ClientConfig,
    Compression,
    ConsumerSettings,
    Message,
    SimpleProducer,
    TalosAdmin,
    TalosConsumer,
    TalosProducer,
)

QUICK = ConsumerSettings(
    renew_interval_s=0.4, check_workers_interval_s=0.4, lease_s=LEASE_S, commit_interval_s=0.2
)
ROUNDS = 8
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OFFICIAL_CODECS = ("NONE", "SNAPPY", "GZIP", "ZSTD")  # it has no LZ4


@pytest.fixture
def config(sdk: Sdk) -> ClientConfig:
    return ClientConfig(endpoints=(sdk.server.url,), key_id=ROOT_KEY.key_id, secret=ROOT_KEY.secret)


class Ours:
    """Our worker, and all it was given."""

    def __init__(self, config: ClientConfig, topic: str, group: str) -> None:
        self.payloads: list[str] = []
        self.taken: list[int] = []
        callbacks = Callbacks(on_assigned=self.taken.extend)
        self.consumer = TalosConsumer(config, topic, group, QUICK, callbacks)
        self.consumer.start()

    def read(self, for_s: float = 0.1) -> None:
        self.payloads += [record.data.decode() for record in self.consumer.poll(for_s)]

    @property
    def held(self) -> int:
        return len(self.consumer.assignment)


def test_ours_and_the_official_worker_share_a_group(sdk: Sdk, config: ClientConfig) -> None:
    group = Group(sdk, "shared", "mixed")
    sent = produce(sdk, "shared", 0, 80)
    official = Worker(sdk, "official", topic="shared", group=group.name)
    with killed_at_the_end(official):
        eventually("the official worker read everything", lambda: set(official.payloads) >= sent)
        ours = Ours(config, "shared", group.name)

        def shared() -> bool:
            ours.read()
            held = len(group.held_by(official)), ours.held
            return held == (PARTITIONS // 2, PARTITIONS // 2)

        eventually("the official worker gives half to ours", shared)
        kept = group.held_by(official)
        assert not set(kept) & set(ours.taken), "ours never had what the other one kept"
        sent |= produce(sdk, "shared", 80, 80)

        def all_read() -> bool:
            ours.read()
            return set(ours.payloads) | set(official.payloads) >= sent

        eventually("both read on", all_read)
        for _ in range(ROUNDS):  # of both: it stays as it is
            ours.read(QUICK.check_workers_interval_s)
            assert group.held_by(official) == kept
        official.stop()

        def alone() -> bool:
            ours.read()
            return ours.held == PARTITIONS

        eventually("ours takes what is free", alone)
        second = Worker(sdk, "second", topic="shared", group=group.name)
        with killed_at_the_end(second):

            def joined() -> bool:
                ours.read()
                return (len(group.held_by(second)), ours.held) == (2, 2)

            eventually("ours gives half back", joined)
            sent |= produce(sdk, "shared", 160, 80)

            def read_again() -> bool:
                ours.read()
                read = [*ours.payloads, *official.payloads, *second.payloads]
                return set(read) >= sent

            eventually("all is read", read_again)
            ours.consumer.close()
            group.wait_until_held(second, PARTITIONS)
            second.stop()
    for worker in (official, second):
        for offsets in worker.delivered.values():
            assert offsets == sorted(set(offsets)), "offsets go up"
    assert len(ours.payloads) == len(set(ours.payloads)), "nothing came twice to ours"


def test_a_topic_of_the_official_sdk_keeps_its_rule_for_keys(
    sdk: Sdk, config: ClientConfig
) -> None:
    sdk.topic("theirs", partitions=2)
    with TalosAdmin(config) as admin:
        admin.topics.create("ours", partitions=2)
        attributes = {name: admin.topics.describe(name).attributes for name in ("theirs", "ours")}
    assert attributes == {"theirs": {}, "ours": {"partitioner": "murmur2"}}
    with TalosProducer(config, "theirs") as producer:
        put = producer.send_and_wait(Message(b"", "user-42"))
    assert put.partition == Partitioning.OFFICIAL.partition_of("user-42", 2)
    assert put.partition != Partitioning.MURMUR2.partition_of("user-42", 2)


@pytest.fixture(params=OFFICIAL_CODECS)
def codec(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_ours_reads_what_the_official_producer_packed(
    sdk: Sdk, config: ClientConfig, codec: str
) -> None:
    topic = f"to-ours-{codec}"
    sdk.topic(topic)
    payloads = [f"{number} " + codec * number for number in range(100)]
    packed = {"galaxy.talos.producer.compression.type": codec}
    sdk.run("simple_put", topic=topic, partition=0, payloads=payloads, config=packed)
    with TalosConsumer(config, topic, "ours") as consumer:
        assert [item.data.decode() for item in consumer.poll(limit_s())] == payloads
    with TalosConsumer(config, topic, "tables") as consumer:
        table = next(consumer.batches(arrow=True))
        assert table.column("data").to_pylist() == [payload.encode() for payload in payloads]


def test_the_official_worker_reads_what_ours_packed(
    sdk: Sdk, config: ClientConfig, codec: str
) -> None:
    topic = f"from-ours-{codec}"
    sdk.topic(topic)
    payloads = [f"{number} " + codec * number for number in range(100)]
    with SimpleProducer(config, topic, compression=Compression[codec]) as producer:
        # A field that it does not know: it skips it.
        producer.put([Message(payload.encode(), traceparent=TRACE) for payload in payloads])
    worker = Worker(sdk, "reader", topic=topic, group="g")
    with killed_at_the_end(worker):
        eventually("the official worker read everything", lambda: len(worker.payloads) == 100)
        worker.stop()
    assert worker.payloads == payloads
