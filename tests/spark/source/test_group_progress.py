"""Progress in a group: beside the query, by its leases, and never in its way."""

import logging
import socket
from collections.abc import Iterator

import pytest
from tests.server_process import ROOT_KEY
from tests.spark.conftest import TalosServer
from tests.spark.source.conftest import create, put

from opentalos.pipelines.datasource.source import group_progress
from opentalos.pipelines.datasource.source.group_progress import GroupProgress
from opentalos.sdk import Client, ClientConfig, TalosAdmin, TopicRef
from opentalos.sdk.aio.consumer.group_member import GroupMember

GROUP = "spark-query"


@pytest.fixture
def client(server: TalosServer) -> Iterator[Client]:
    with Client(server.config) as made:
        yield made


def filled(server: TalosServer, client: Client, topic: str) -> TopicRef:
    """A topic of two partitions with 10 messages each."""
    create(server, topic, 2)
    put(server, topic, [10, 10])
    return client.run(lambda inner: inner.topic(topic))


def checkpoints(client: Client, topic: str) -> list[int]:
    return [item.checkpoint for item in TalosAdmin(client).groups.lag(topic, GROUP)]


def test_progress_is_committed_and_leases_are_given_back(
    server: TalosServer, client: Client
) -> None:
    ref = filled(server, client, "progress")
    progress = GroupProgress(server.config, GROUP)
    for reached, shown in ((0, []), (4, [3]), (10, [9])):
        progress.reached({ref.resource: {0: reached}})
        progress.settle()
        if shown:
            assert checkpoints(client, "progress")[:1] == shown
    workers = TalosAdmin(client).groups.workers("progress", GROUP)
    assert list(workers.values()) == [()]
    assert next(iter(workers)).startswith("spark-")


def test_partitions_of_another_worker_wait_until_it_gives_them_back(
    server: TalosServer,
    client: Client,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ref = filled(server, client, "shared")
    other = client.bind(lambda inner: GroupMember(inner, ref, GROUP, "another"))
    other(lambda member: member.register())
    assert other(lambda member: member.lock([0])) == [0]
    progress = GroupProgress(server.config, GROUP)
    positions = {ref.resource: {0: 5, 1: 5}}
    with caplog.at_level(logging.WARNING, "opentalos.datasource"):
        progress.reached(positions)
        progress.settle()
    assert "shared: other workers of the group hold the leases of 0" in caplog.text
    assert checkpoints(client, "shared") == [-1, 4]

    other(lambda member: member.unlock([0]))
    progress.reached(positions)  # too early: the query has not moved
    progress.settle()
    assert checkpoints(client, "shared") == [-1, 4]
    monkeypatch.setattr(group_progress, "RETRY_S", 0.0)
    progress.reached(positions)
    progress.settle()
    assert checkpoints(client, "shared") == [4, 4]


def test_a_server_that_is_away_does_not_harm_the_query(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        away = ClientConfig(
            endpoints=(f"http://127.0.0.1:{free.getsockname()[1]}",),
            key_id=ROOT_KEY.key_id,
            secret=ROOT_KEY.secret,
        )
        progress = GroupProgress(away, GROUP)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(group_progress, "SETTLE_S", 0.2)
            with caplog.at_level(logging.WARNING, "opentalos.datasource"):
                progress.reached({"o#t#u": {0: 5}})
                progress.settle()
    assert "a commit is still in flight" in caplog.text


def test_a_topic_that_is_gone_does_not_harm_the_query(
    server: TalosServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    ref = filled(server, client, "gone")
    TalosAdmin(client).topics.delete("gone")
    progress = GroupProgress(server.config, GROUP)
    with caplog.at_level(logging.WARNING, "opentalos.datasource"):
        progress.reached({ref.resource: {0: 5}})
        progress.settle()
    assert "could not commit progress (the query is not affected): group=spark-query" in caplog.text
