"""A server killed with SIGKILL under load: what __usage has is what the log holds."""

import random
import threading
from pathlib import Path
from typing import Any

from tests.e2e.rest.client import Replied, figure, rest
from tests.server_process import ServerProcess
from tests.waiting import elapse, eventually

from opentalos.wire.metrics.usage import UsageEvent

KILLS = 3
PARTITIONS = 2
PUTS = 20  # between a start and the next kill
EVENTS = "metering_events_total"
EVENTS_MIN = 3 * PARTITIONS  # of one life of the server, whose minutes are two at most
INTERVAL_S = 0.3
RETRY_S = 0.05  # while the server is away
CONFIG = f"[metering]\ninterval_s = {INTERVAL_S}\npartitions = 2\nstorage = false\n"

Row = tuple[int, int, int, int, int]  # partition, minute, first and next offset, bytes


class Writers:
    """Threads that put over REST, whatever the answer, until they are stopped."""

    def __init__(self, server: ServerProcess) -> None:
        self._server, self._over = server, threading.Event()
        self.done = 0
        self._threads = [
            threading.Thread(target=self._write, args=(number,)) for number in range(4)
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, number: int) -> None:
        path = f"topics/metered/partitions/{number % PARTITIONS}/messages"
        count = 0
        while not self._over.is_set():
            count += 1
            messages = [{"text": "x" * (count % 50 + 1)} for _ in range(count % 7 + 1)]
            try:
                self.done += rest(self._server, "POST", path, {"messages": messages}).status == 200
            except OSError:
                self._over.wait(RETRY_S)

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


def read(server: ServerProcess, path: str) -> Replied:
    """A reply of 200 or 404; what a busy server does not answer in time is asked again."""
    replies: list[Replied] = []

    def answered() -> bool:
        replies.append(rest(server, "GET", path))
        return replies[-1].status in (200, 404)

    eventually(f"{path} is answered", answered, state=lambda: replies[-1].document)
    return replies[-1]


def log_rows(server: ServerProcess) -> list[Row]:
    """Minutes of the log itself."""
    found: list[Row] = []
    for partition in range(PARTITIONS):
        page: dict[str, Any] = read(server, f"topics/metered/usage?partition={partition}").document
        assert page["next_page"] is None
        assert page["start_offset"] == 0
        found += [
            (
                partition,
                minute["minute_ms"],
                minute["first_offset"],
                minute["next_offset"],
                minute["bytes"],
            )
            for minute in page["minutes"]
        ]
    return found


def usage_events(server: ServerProcess) -> list[UsageEvent]:
    """Everything that __usage has."""
    found: list[UsageEvent] = []
    for partition in range(2):
        offset = 0
        while True:
            path = f"topics/system%2F__usage/partitions/{partition}/messages"
            replied = read(server, f"{path}?offset={offset}&encoding=text")
            if replied.status == 404 or not replied.document["messages"]:
                break
            lines = [message["text"].encode() for message in replied.document["messages"]]
            found += [UsageEvent.decode(line) for line in lines]
            offset = replied.document["next_offset"]
    return found


def bill_rows(events: list[UsageEvent]) -> list[Row]:
    """The events upserted: the larger next offset wins."""
    table: dict[tuple[str, int, int], UsageEvent] = {}
    for event in events:
        held = table.get(event.key)
        if held is None or event.next_offset > held.next_offset:
            table[event.key] = event
    return sorted(
        (row.partition, row.minute_ms, row.first_offset, row.next_offset, row.bytes)
        for row in table.values()
    )


def wait_metered(server: ServerProcess, writers: Writers) -> None:
    """Messages were put since now, and since its start the server has published each minute often.

    The counter is read, not ``__usage``, whose end the writers would move away from any reader.
    """
    done = writers.done

    def metered() -> bool:
        return writers.done >= done + PUTS and figure(server, EVENTS) >= EVENTS_MIN

    eventually("the load is metered", metered, state=lambda: (writers.done, done))


def test_after_kills_under_load_usage_equals_the_log(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path, CONFIG).start()
    made = rest(server, "POST", "topics", {"name": "metered", "partitions": PARTITIONS})
    assert made.status == 201
    writers, draw = Writers(server), random.Random(0)
    try:
        for _ in range(KILLS):
            wait_metered(server, writers)
            elapse("the kill comes at any time of an interval", draw.uniform(0, INTERVAL_S))
            server.kill()
            server.start()
        wait_metered(server, writers)
        writers.end()
        log = log_rows(server)

        def billed() -> list[Row]:
            return bill_rows(usage_events(server))

        what = "usage is what the log holds"
        eventually(what, lambda: billed() == log, state=lambda: f"{billed()}, but {log}")
        events = usage_events(server)
    finally:
        writers.end()
        server.stop()
    assert bill_rows(events) == log
    assert sum(row[3] - row[2] for row in log) > 50, "hardly any load"
    assert {event.tenant for event in events} == {"root"}
    assert len(events) > len(log), "no minute was published twice"
