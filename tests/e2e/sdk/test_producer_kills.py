"""TalosProducer while its server is killed with SIGKILL, judged by the history checker."""

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.sdk.conftest import config_of
from tests.server_process import ServerProcess
from tests.waiting import elapse, eventually

from opentalos.sdk import (
    ClientConfig,
    Outcome,
    ProducerSettings,
    SimpleConsumer,
    TalosAdmin,
    TalosProducer,
)
from opentalos.sdk.errors import TalosError
from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.history import Operation, Recorder

KILLS = int(os.environ.get("OPENTALOS_KILLS", "5"))

TOPIC = "killed"
PARTITIONS = 3
KEYS = ("user-1", "user-42", "x")
AHEAD = 1_000  # messages of a writer that have no outcome, at most
PROGRESS = 100  # messages between a restart and the next kill, at least


class Writer:
    """Puts messages until it is stopped; the history has what became of each."""

    def __init__(self, producer: TalosProducer, recorder: Recorder, name: str) -> None:
        self.stored = 0
        self._producer, self._recorder, self._name = producer, recorder, name
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        count = 0
        while not self._stop.is_set():
            name = f"{self._name}.{count}"
            count += 1
            args = {"topic": TOPIC, "partition": count % PARTITIONS, "ids": [name]}
            put = self._recorder.invoke(self._name, "put", idempotent=True, **args)
            self._producer.put(name.encode(), on_success=self._good(put), on_error=self._bad(put))
            if count % 20 == 0:
                elapse("the pace of the load", 0.01)
            # More than a busy machine sends until the producer is closed would be given up then.
            while count - self.stored > AHEAD and not self._stop.wait(0.01):
                pass

    def _good(self, put: Operation) -> Callable[..., None]:
        def good(_: Any, partition: int, offset: int | None) -> None:
            self.stored += 1
            # Which partition it went to is known only now.
            put.args = {**put.args, "partition": partition}
            self._recorder.ok(put, offset=offset)

        return good

    def _bad(self, put: Operation) -> Callable[..., None]:
        def bad(_: Any, error: TalosError, outcome: Outcome) -> None:
            end = self._recorder.fail if outcome is Outcome.NOT_DONE else self._recorder.unknown
            end(put, f"{type(error).__name__}: {error}")

        return bad


def stored(writers: list[Writer]) -> int:
    return sum(writer.stored for writer in writers)


def progress(writers: list[Writer]) -> None:
    wanted = stored(writers) + PROGRESS
    eventually("the writers make progress", lambda: stored(writers) > wanted)


def read_whole(config: ClientConfig, recorder: Recorder) -> None:
    with SimpleConsumer(config, TOPIC) as consumer:
        for partition, held in consumer.offsets().items():
            args = {"topic": TOPIC, "partition": partition, "final": True, "healed": True}
            read = recorder.invoke("final", "read", offset=0, **args)
            blocks: list[tuple[int, list[str]]] = []
            while len(blocks) < held.next:
                records = consumer.fetch(partition, len(blocks))
                blocks += [(record.offset, [record.data.decode()]) for record in records]
            recorder.ok(read, blocks=blocks, start=0, next=held.next)


@pytest.mark.parametrize("durability", ["synced", "flushed"])
def test_kill_9_in_the_middle_loses_and_repeats_nothing(tmp_path: Path, durability: str) -> None:
    server, source = ServerProcess(tmp_path / "server").start(), random.Random(1)
    config = config_of(server.url, backoff_s=0.02, backoff_s_max=0.2, request_timeout_s=3.0)
    recorder = Recorder(time.monotonic)
    with TalosAdmin(config_of(server.url)) as admin:
        admin.topics.create(TOPIC, partitions=PARTITIONS, attributes={"durability": durability})
    settings = ProducerSettings(batch_messages_max=20, linger_s=0.002, idempotent=True)
    try:
        with TalosProducer(config, TOPIC, settings) as producer:
            writers = [Writer(producer, recorder, f"writer{number}") for number in range(2)]
            for _ in range(KILLS):
                progress(writers)
                elapse("a kill may come at any moment of the load", source.uniform(0.2, 0.7))
                server.kill()
                server.start()
            for writer in writers:
                writer.stop()
        read_whole(config, recorder)
    finally:
        server.stop()
    history = recorder.history
    puts = history.of("put")
    assert sum(put.ok for put in puts) == len(puts) > PROGRESS * KILLS
    assert [str(anomaly) for anomaly in check(history)] == []
