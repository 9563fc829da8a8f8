"""Latency from a put to a structured table until a reader of its stream has the message."""

import threading
import time
from collections.abc import Callable

from bench.client import Client
from bench.report import Figure, at_most
from bench.sds_tables import GROUPS, IDS, KEYS, BenchTable, row
from bench.server import KEY_ID, SECRET
from opentalos.model.change import StreamView
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.sync.simple_consumer import SimpleConsumer
from opentalos.wire._generated import sds
from opentalos.wire.sds.change import decode_change

WRITERS = 4
PUTS_PER_S = 200.0  # all writers together, far below capacity
LAST_S = 10.0  # until the last message is there
WARM_UP = 100  # puts


class Visible:
    """Puts at a fixed rate, and one waiting reader per partition."""

    def __init__(self, port: int, table: BenchTable, seconds: float) -> None:
        assert table.topic is not None
        self.port, self.table, self.topic = port, table, table.topic
        self.puts = int(seconds * PUTS_PER_S)
        self.latencies_ms: list[float] = []
        self.put_ms: list[float] = []
        self._began_ns = time.monotonic_ns()
        self._config = ClientConfig(
            endpoints=(f"http://127.0.0.1:{port}",), key_id=KEY_ID, secret=SECRET
        )
        with SimpleConsumer(self._config, self.topic.name) as consumer:
            self._offsets = {
                partition: bounds.next for partition, bounds in consumer.offsets().items()
            }
        self._stop = threading.Event()
        self._problems: list[BaseException] = []

    def run(self) -> None:
        """RuntimeError if a message does not come in time."""
        readers = [
            threading.Thread(target=self._guard, args=(self._read, number), daemon=True)
            for number in range(self.topic.partitions)
        ]
        writers = [
            threading.Thread(target=self._guard, args=(self._write, number), daemon=True)
            for number in range(WRITERS)
        ]
        for thread in (*readers, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        deadline_s = time.monotonic() + LAST_S
        while len(self.latencies_ms) < len(self.put_ms) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        self._stop.set()
        for thread in readers:
            thread.join()
        if self._problems:
            raise RuntimeError(f"{self._problems[0]!r}")
        if len(self.latencies_ms) < len(self.put_ms):
            raise RuntimeError(f"{len(self.put_ms)} puts, {len(self.latencies_ms)} messages")

    def _guard(self, work: Callable[[int], None], number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            self._problems.append(error)

    def _write(self, writer: int) -> None:
        client, pace_s = Client(self.port), WRITERS / PUTS_PER_S
        due_s = time.monotonic() + writer * pace_s / WRITERS
        for number in range(writer, self.puts, WRITERS):
            time.sleep(max(0.0, due_s - time.monotonic()))
            due_s += pace_s
            sent_ns = time.monotonic_ns()
            record = row(number % GROUPS, number // GROUPS % IDS, sent_ns)
            client.call(sds.TABLE_SERVICE, "put", self.table.put(record))
            self.put_ms.append((time.monotonic_ns() - sent_ns) / 1e6)

    def _read(self, partition: int) -> None:
        offset = self._offsets[partition]
        with SimpleConsumer(self._config, self.topic.name) as consumer:
            while not self._stop.is_set():
                for record in consumer.fetch(partition, offset):
                    now_ns = time.monotonic_ns()
                    offset = record.offset + 1
                    _, change = decode_change(StreamView.MUTATE_LOG, record.data, KEYS)
                    sent_ns = change.columns["sent"].value
                    assert isinstance(sent_ns, int)
                    if sent_ns > self._began_ns:  # not of an earlier load
                        self.latencies_ms.append((now_ns - sent_ns) / 1e6)


def visible(place: str, port: int, table: BenchTable, *, seconds: int, goal_ms: float) -> Figure:
    """P99, with P50 beside it."""
    Visible(port, table, WARM_UP / PUTS_PER_S).run()
    run = Visible(port, table, seconds)
    run.run()
    found, puts = sorted(run.latencies_ms), sorted(run.put_ms)
    return at_most(
        f"{place}: put to message visible, P99 at {PUTS_PER_S:.0f} puts/s",
        "ms",
        goal_ms,
        [found[int(len(found) * 0.99)]],
        p50_ms=found[len(found) // 2],
        max_ms=found[-1],
        put_p50_ms=puts[len(puts) // 2],
    )
