"""Puts to random ones of many partitions, so that each is quiet: what a shared journal is for."""

import itertools
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPException
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

from tests.cluster_processes import wait_none_left
from tests.raw_client import RawClient, RawTopic, TalosError
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import eventually, limit_s

from opentalos.sdk import ClientConfig, OffsetRange
from opentalos.sdk.errors import TalosError as SdkError
from opentalos.sdk.sync.client import Client
from opentalos.sdk.sync.simple_consumer import SimpleConsumer
from opentalos.testing.simulation.history import Recorder

TOPIC = "quiet"
PARTITIONS_MAX = "[topic]\npartitions_max = 1_000\n"  # for the server's configuration
WRITERS = 4
UNKNOWN_CODE = 2
PAUSE_S = 0.002  # between two puts of a writer
PAUSE_AFTER_FAILURE_S = 0.02
ANSWER_S = 30.0  # a writer that is not answered by then asks the next server
LARGE_SHARE = 0.01  # of the puts: these go to the segment itself
LARGE_BYTES = 70_000


class QuietLoad:
    """Writers in threads of this process. What they saw is in ``folder``, for ``History.load``.

    Each writes to a server of its own, and after a failure to the next of them.
    """

    def __init__(
        self,
        servers: Sequence[ServerProcess],
        folder: Path,
        partitions: int,
        writers: int = WRITERS,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.servers, self.folder, self.partitions = servers, folder, partitions
        self.answered = [0] * writers
        self.acks: list[tuple[float, int]] = []  # monotonic time, partition
        self._name: Any = None
        self._stopping, self._held = Event(), Event()
        self._pause_s = PAUSE_S
        self._due: list[deque[int]] = [deque() for _ in range(writers)]
        self._threads = [
            Thread(target=self._write, args=(number,), name=f"quiet-{number}", daemon=True)
            for number in range(writers)
        ]

    def start(self) -> None:
        """Return when every partition has a message."""
        with closing(RawClient(self.servers[0].port)) as client:
            made = RawTopic.create(client, TOPIC, partitions=self.partitions, durability="synced")
        self._name = made.resource
        for thread in self._threads:
            thread.start()
        self.touch_all()

    @property
    def resource(self) -> str:
        """The resource name of its topic."""
        return str(self._name.topicTalosResourceName)

    def touch_all(self) -> float:
        """Every partition acknowledged something anew; returns the seconds that took."""
        for number, due in enumerate(self._due):
            due.extend(range(number, self.partitions, len(self._due)))
        return wait_none_left(
            "every quiet partition is answered",
            # The writers take the partitions that are due in turn, then draw.
            lambda: sum(map(len, self._due)),
            state=lambda: f"{sorted(itertools.chain(*self._due))} are left",
        )

    def hold(self) -> None:
        """Begin no further put until ``go_on``."""
        self._held.set()

    def go_on(self, pause_s: float = PAUSE_S) -> None:
        """Put again, with so many seconds between two puts of a writer."""
        self._pause_s = pause_s
        self._held.clear()

    def wait_progress(self) -> None:
        """Every writer was answered anew."""
        before = list(self.answered)

        def all_answered() -> bool:
            return all(now > then for now, then in zip(self.answered, before, strict=True))

        eventually("every quiet writer is answered", all_answered)

    def stop(self) -> None:
        """End after the calls under way."""
        self._stopping.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def read_all(self, server: ServerProcess, path: Path, every: int = 1) -> None:
        """Last reads, which must succeed; of each ``every``-th partition."""
        with path.open("w") as sink, Client(final_config(server)) as client:
            recorder = Recorder(time.monotonic, sink)
            with SimpleConsumer(client, TOPIC) as consumer:
                bounds: dict[int, OffsetRange] = {}
                for partition in range(0, self.partitions, every):
                    with final_read(recorder, TOPIC, partition) as result:
                        bounds = bounds or consumer.offsets()
                        result |= read_blocks(consumer, partition, bounds[partition])
                    if not bounds:
                        return  # the failure stands for all

    def _write(self, number: int) -> None:
        draw = Random(number)
        server = number % len(self.servers)
        client = RawClient(self.servers[server].port, timeout_s=ANSWER_S)
        due = self._due[number]
        count = 0
        with (self.folder / f"quiet-{number}.jsonl").open("w") as sink:
            recorder = Recorder(time.monotonic, sink)
            while not self._stopping.is_set():
                if self._held.is_set():
                    self._stopping.wait(PAUSE_AFTER_FAILURE_S)
                    continue
                wanted = bool(due)
                partition = due[0] if wanted else draw.randrange(self.partitions)
                name = f"quiet-{number}-{count}"
                count += 1
                large = draw.random() < LARGE_SHARE
                message = (name, LARGE_BYTES if large else 0)
                if self._put(recorder, client, partition, message):
                    self.answered[number] += 1
                    self.acks.append((time.monotonic(), partition))
                    if wanted:
                        due.popleft()
                    self._stopping.wait(self._pause_s)
                    continue
                due.rotate(-1)  # one that cannot be written now does not hold up the others
                server = (server + 1) % len(self.servers)
                client.close()
                client = RawClient(self.servers[server].port, timeout_s=ANSWER_S)
                self._stopping.wait(PAUSE_AFTER_FAILURE_S)
        client.close()

    def _put(
        self, recorder: Recorder, client: RawClient, partition: int, message: tuple[str, int]
    ) -> bool:
        name, filler_bytes = message
        topic = RawTopic(client, TOPIC, self._name)
        put = recorder.invoke(name, "put", topic=TOPIC, partition=partition, ids=[name])
        try:
            topic.put(f"{name} {'.' * filler_bytes}".encode(), partition=partition)
        except TalosError as error:
            ended = recorder.unknown if error.code == UNKNOWN_CODE else recorder.fail
            ended(put, str(error)[:200])
        except (OSError, HTTPException) as error:
            recorder.unknown(put, repr(error)[:200])
        else:
            recorder.ok(put)
            return True
        return False


def final_config(server: ServerProcess) -> ClientConfig:
    """Of a client for last reads, which must succeed."""
    return ClientConfig(
        endpoints=(server.url,),
        key_id=ROOT_KEY.key_id,
        secret=ROOT_KEY.secret,
        deadline_s=limit_s(),  # of one call, repeated while the server has just started
    )


@contextmanager
def final_read(recorder: Recorder, topic: str, partition: int) -> Iterator[dict[str, Any]]:
    """Record a last read, which must succeed; the body fills in its result."""
    args = {"topic": topic, "partition": partition, "final": True, "healed": True}
    read = recorder.invoke("final", "read", offset=0, **args)
    result: dict[str, Any] = {}
    try:
        yield result
    except SdkError as error:
        recorder.fail(read, str(error)[:200])
    else:
        recorder.ok(read, **result)


def read_blocks(consumer: SimpleConsumer, partition: int, bounds: OffsetRange) -> dict[str, Any]:
    """A whole log. A message stands for its first word."""
    blocks: list[list[object]] = []
    offset = bounds.start
    while offset < bounds.next and (records := consumer.fetch(partition, offset)):
        blocks += [[record.offset, [_first_word(record.data)]] for record in records]
        offset = records[-1].offset + 1
    return {"blocks": blocks, "start": bounds.start, "next": bounds.next}


def _first_word(data: bytes) -> str:
    return data.split(b" ", 1)[0].decode()
