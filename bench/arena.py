"""Several builds under the same load in turn: each has its server, all run at once, one works."""

import contextlib
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import load
from bench.builds import Build
from bench.client import BenchTopic, Client
from bench.load import LoadResult
from bench.plan import Plan
from bench.server import ServerProcess

MESSAGE_BYTES = 1024
PARTITIONS_OF_TOPIC = 250
OPEN_TIMEOUT_S = 180.0  # until each partition took a put
OPEN_CONNECTIONS = 64
REQUESTS_MIN, REQUESTS_OF_PARTITION = 4_096, 4  # of random partitions, sent over and over
SEED = 1
SETTLE_S = 0.5  # the server that worked last writes out what a journal held


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: puts a second, P50 and P99, the server's CPU time of a put, puts that failed."""

    puts_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    errors: int = 0


def rate_of(run: Sample) -> float:
    """For figures over many runs, as the next two."""
    return run.puts_per_s


def cpu_us_of(run: Sample) -> float:
    """CPU time of a put in microseconds."""
    return run.cpu_us


def p99_ms_of(run: Sample) -> float:
    """P99 in milliseconds."""
    return run.p99_ms


class Contender:
    """A server with its topics."""

    def __init__(self, build: Build, server: ServerProcess, binary: Path) -> None:
        self.build, self._server, self._binary = build, server, binary
        self._topics: list[BenchTopic] = []
        self._requests = binary.with_name(f"puts-{server.port}.bin")

    def create(self, partitions: int, durability: str) -> None:
        """Topics with so many partitions in all, each of which took a put."""
        client = Client(self._server.port)
        for start in range(0, partitions, PARTITIONS_OF_TOPIC):
            count = min(PARTITIONS_OF_TOPIC, partitions - start)
            topic = client.create_topic(f"puts{start}", count, durability=durability)
            self._topics.append(topic)
        puts = [
            put
            for topic in self._topics
            for put in topic.put_requests(block_bytes=MESSAGE_BYTES, turns=topic.partitions)
        ]
        load.write_request_file(self._requests, puts)
        until_s, seconds = time.monotonic() + OPEN_TIMEOUT_S, 1.0
        while not self._all_open():
            if time.monotonic() > until_s:
                raise RuntimeError(f"{self.build.name}: {partitions:,} partitions do not open")
            self._replay(OPEN_CONNECTIONS, 0.0, seconds)
            seconds *= 2  # each time starts with the first partition
        # Some partitions wait long for their next put: in turn none would ever be idle.
        count = max(REQUESTS_MIN, REQUESTS_OF_PARTITION * partitions)
        load.write_request_file(self._requests, random.Random(SEED).choices(puts, k=count))

    def run(self, connections: int, *, rate: float, seconds: float) -> Sample:
        """A closed loop if ``rate`` is 0; the log must hold what was acknowledged."""
        time.sleep(SETTLE_S)
        before, cpu_s = self.stored(), self._server.cpu_s()
        run = self._replay(connections, rate, seconds)
        cpu_s = self._server.cpu_s() - cpu_s
        if (stored := self.stored() - before) < run.requests:
            raise RuntimeError(
                f"{self.build.name}: {run.requests} puts were answered but only {stored} are stored"
            )
        cpu_us = cpu_s / max(1, run.requests) * 1e6
        p50_ms, p99_ms = run.p50_us / 1e3, run.p99_us / 1e3
        return Sample(run.requests_per_s, p50_ms, p99_ms, cpu_us, run.errors)

    def _replay(self, connections: int, rate: float, seconds: float) -> LoadResult:
        return load.open_loop(
            self._binary,
            self._server.port,
            self._requests,
            connections=connections,
            rate=rate,
            seconds=seconds,
        )

    def stored(self) -> int:
        """How many messages the logs have."""
        client = Client(self._server.port)
        return sum(topic.stored_messages(client) for topic in self._topics)

    def _all_open(self) -> bool:
        client = Client(self._server.port)
        with contextlib.suppress(RuntimeError):  # some are being opened
            return all(min(topic.stored_by_partition(client)) > 0 for topic in self._topics)
        return False


@contextlib.contextmanager
def arena(
    plan: Plan, builds: Sequence[Build], partitions: int, durability: str = "synced"
) -> Iterator[list[Contender]]:
    """A server for each build, with as many partitions."""
    with contextlib.ExitStack() as stack:
        contenders = []
        binary = load.build_open_loop(plan.work)
        for number, build in enumerate(builds):
            server = stack.enter_context(build.server(plan.folder(f"arena-{number}")))
            contenders.append(Contender(build, server, binary))
            contenders[-1].create(partitions, durability)
        yield contenders


def in_turn(contenders: Sequence[Contender], number: int) -> list[Contender]:
    """Each round starts with another one, so that none always follows the same."""
    start = number % len(contenders)
    return [*contenders[start:], *contenders[:start]]
