"""What a real server measures: it adds up, and outlives kills and a queue that refuses."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.measuring.events import (
    administrator,
    assert_each_key_once,
    rows_of,
    total,
    upserted,
    wait_for_rows,
)
from tests.server_process import ServerProcess
from tests.waiting import eventually

from opentalos.model.errors import StoreUnavailable
from opentalos.model.limits import MeasuringSettings
from opentalos.sdk import ClientConfig, SimpleConsumer, SimpleProducer, TalosAdmin
from opentalos.server.config import Config
from opentalos.testing.embedded import EmbeddedServer
from opentalos.wire.metrics.measures import Kind, Scope, names
from opentalos.wire.metrics.sketch import percentile

CONFIG = "[measuring]\nstep_s = 1.0\n"
PUTS, MESSAGES = 40, 3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path / "server", CONFIG).start()
    yield running
    if running.process is not None:
        running.stop()


def send(config: ClientConfig, topic: str, partition: int, puts: int = PUTS) -> None:
    with SimpleProducer(config, topic, partition) as producer:
        for _ in range(puts):
            producer.put([b"x" * 100] * MESSAGES)


def receive(config: ClientConfig, topic: str, partition: int, count: int) -> None:
    with SimpleConsumer(config, topic) as consumer:
        got = 0
        while got < count:
            got += len(consumer.fetch(partition, got))


def create(config: ClientConfig, name: str, partitions: int) -> None:
    with TalosAdmin(config) as admin:
        admin.topics.create(name, partitions=partitions)


def test_rows_add_up_to_the_traffic(server: ServerProcess) -> None:
    config = administrator(server.url)
    create(config, "orders", 3)
    create(config, "idle", 1)
    send(config, "orders", 0)
    send(config, "orders", 2, puts=7)
    receive(config, "orders", 0, PUTS * MESSAGES)
    sent = (PUTS + 7) * MESSAGES
    rows = wait_for_rows(
        config,
        lambda rows: (
            total(rows, "put_messages", "orders") >= sent
            and total(rows, "get_messages", "orders") >= PUTS * MESSAGES
        ),
    )
    assert_each_key_once(rows)
    assert total(rows, "put_messages") == total(rows, "put_messages", "orders") == sent
    assert total(rows, "put_requests") == total(rows, "put_blocks", "orders") == PUTS + 7
    assert total(rows, "put_bytes") == total(rows, "put_bytes", "orders") > 0
    assert total(rows, "get_messages", "orders") == PUTS * MESSAGES
    by_partition = {row.partition for row in rows if row.topic == "orders"}
    assert by_partition == {0, 2}
    assert {row.tenant for row in rows if row.topic == "orders"} == {"root"}
    assert not any(row.topic == "idle" for row in rows)
    counts: dict[int, int] = {}
    for row in rows:
        for bucket, count in row.sketches.get("put_ms", {}).items():
            counts[bucket] = counts.get(bucket, 0) + count
    assert sum(counts.values()) == PUTS + 7
    assert 0 < (percentile(counts, 99) or 0) < 60_000


def test_a_servers_row_has_every_documented_measure(server: ServerProcess) -> None:
    config = administrator(server.url)
    (row, *_) = wait_for_rows(config, lambda rows: len(rows) > 0)
    assert row.sums.keys() == names(Kind.SUM, Scope.SERVER)
    assert row.gauges.keys() == names(Kind.GAUGE, Scope.SERVER)
    assert (row.at_ms % 1_000, row.step_ms) == (0, 1_000)
    assert (row.service, row.cluster, row.tenant, row.partition) == ("server", "", "", -1)
    assert row.machine.startswith("server-")
    assert row.gauges["memory_bytes"] > 1 << 20
    assert row.gauges["disk_total_bytes"] > row.gauges["disk_free_bytes"] > 0
    assert row.sums["cpu_ms"] > 0


def test_a_kill_costs_one_interval_at_most_and_measuring_continues(server: ServerProcess) -> None:
    config = administrator(server.url)
    create(config, "orders", 1)
    send(config, "orders", 0)
    before = wait_for_rows(
        config, lambda rows: total(rows, "put_messages", "orders") == PUTS * MESSAGES
    )
    server.kill()
    server.start()
    send(config, "orders", 0, puts=5)
    rows = wait_for_rows(
        config,
        lambda rows: total(upserted(rows), "put_messages", "orders") >= (PUTS + 5) * MESSAGES,
    )
    rows = upserted(rows)
    assert total(rows, "put_messages", "orders") == (PUTS + 5) * MESSAGES
    assert len({row.machine for row in rows}) == 1
    assert max(row.at_ms for row in rows) > max(row.at_ms for row in before)


def test_a_stop_loses_nothing(server: ServerProcess) -> None:
    config = administrator(server.url)
    create(config, "orders", 1)
    for _ in range(3):
        send(config, "orders", 0, puts=4)
        server.stop()
        server.start()
    rows = wait_for_rows(
        config, lambda rows: total(rows, "put_messages", "orders") >= 12 * MESSAGES
    )
    assert_each_key_once(rows)
    assert total(rows, "put_messages", "orders") == 12 * MESSAGES
    assert total(rows, "put_requests") == 12


class RefusingQueue:
    """Stands before a server's topics of its own."""

    def __init__(self, put: Callable[..., Any]) -> None:
        self._put = put
        self.refuses = False
        self.refused = 0

    def wait_refusal(self, before: int) -> None:
        """It refuses once more than so often."""
        eventually("the queue refuses again", lambda: self.refused > before)

    async def put(self, topic: str, messages: Sequence[bytes], *, key: str) -> None:
        if self.refuses:
            self.refused += 1
            raise StoreUnavailable("the test refuses")
        await self._put(topic, messages, key=key)


def test_nothing_is_lost_while_the_queue_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = MeasuringSettings(step_s=1.0)
    with EmbeddedServer(config=Config(measuring=settings)) as server:
        assert server._running is not None
        topics = server._running[1].broker.system_topics
        queue = RefusingQueue(topics.put)
        monkeypatch.setattr(topics, "put", queue.put)
        config = server.client_config()
        server.create_topic("orders")
        send(config, "orders", 0, puts=5)
        wait_for_rows(config, lambda rows: total(rows, "put_requests") >= 5)
        queue.refuses = True
        for _ in range(3):
            refused = queue.refused
            send(config, "orders", 0, puts=5)
            queue.wait_refusal(refused)
        stored = total(rows_of(config), "put_requests")
        queue.refuses = False
        rows = wait_for_rows(config, lambda rows: total(rows, "put_requests") >= 20)
    assert_each_key_once(rows)
    assert stored == 5
    assert total(rows, "put_requests") == 20
    whole = [row for row in rows if not row.topic]
    assert all(row.at_ms - row.step_ms == last.at_ms for last, row in pairwise(whole)), whole
    assert any(row.gauges["spool_bytes"] > 0 for row in rows if not row.topic)
    assert all(row.gauges["spool_dropped"] == 0 for row in rows if not row.topic)


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    running = ServerProcess(tmp_path / "server", "[measuring]\nenabled = false\n").start()
    try:
        assert not (running.data / "measuring").exists()
    finally:
        running.stop()
