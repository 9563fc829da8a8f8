"""What the others notice while storage hangs under a topic, or under a quarter of the server."""

import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench import load
from bench.client import BenchTopic, Client, new_tenant
from bench.load import LoadResult
from bench.plan import Plan
from bench.put_figures import MESSAGE_BYTES, UNLIMITED, hanging_topic
from bench.report import Figure, at_most
from bench.server import ServerProcess

HANGING_PARTITIONS, OTHER_PARTITIONS = 16, 48  # a quarter of all, and the rest
# A fault hits the files of a topic, which a journal would take the commits from.
FILE_PER_PARTITION = {**UNLIMITED, "log": {"journal": "off"}}
COMMIT_HANG_S = 1.0  # the server's default; after it a file is given up for a fresh one
HANG_S = 3.0  # of each commit; above that, so fresh files are a part of the load
RATE = 2_000.0
CONNECTIONS = 64
# The hanging tenant keeps its rate: every put is answered within commit_deadline_s, 10 s.
HANGING_RATE = 64.0
HANGING_CONNECTIONS = 640
SETTLE_S = HANG_S + 1.0  # until all its partitions hang; until none does any more
GOAL = 1.5


def hanging(plan: Plan) -> Iterator[Figure]:
    """Both figures."""
    yield from hanging_topic(plan)
    yield from hanging_quarter(plan)


@dataclass(frozen=True, slots=True)
class _Round:
    """The same loads with (True) and without (False) hanging commits."""

    other: dict[bool, LoadResult]
    sick: dict[bool, LoadResult]

    def ratio(self) -> float:
        return self.other[True].p99_us / self.other[False].p99_us


def hanging_quarter(plan: Plan) -> Iterator[Figure]:
    """P99 of a tenant while each commit of another one hangs that has a quarter of all partitions.

    One server for all rounds; each round measures with and without, and rounds change the order.
    """
    pair = _Pair(plan)
    launcher = plan.faulty_launcher(hang_file=pair.switch, hang_s=HANG_S)
    folder = plan.folder("hang-quarter")
    with ServerProcess(folder, settings=FILE_PER_PARTITION, launcher=launcher) as server:
        pair.create(server)
        rounds = []
        for number in range(plan.latency_repeats):
            other, sick = {}, {}
            for hang in (False, True) if number % 2 == 0 else (True, False):
                other[hang], sick[hang] = pair.measure(hang)
            rounds.append(_Round(other, sick))
    if not all(each.sick[True].max_us >= COMMIT_HANG_S * 1e6 for each in rounds):
        raise RuntimeError("the commits of the hanging tenant did not hang")
    notes: dict[str, float] = {}
    for hang, label in ((False, "without"), (True, "with")):
        runs = [each.other[hang] for each in rounds]
        notes[f"p50_ms_{label}"] = statistics.median(run.p50_us for run in runs) / 1e3
        notes[f"p99_ms_{label}"] = statistics.median(run.p99_us for run in runs) / 1e3
    for hang, label in ((False, "without"), (True, "with")):
        runs = [each.sick[hang] for each in rounds]
        notes[f"hanging_p50_ms_{label}"] = statistics.median(run.p50_us for run in runs) / 1e3
        notes[f"hanging_errors_{label}"] = sum(run.errors for run in runs)
    ratios = [each.ratio() for each in rounds]
    yield at_most("P99 beside a hanging quarter / beside none", "x", GOAL, ratios, **notes)
    failed = [float(_failed(each.other[True], plan.seconds)) for each in rounds]
    before = sum(_failed(each.other[False], plan.seconds) for each in rounds)
    yield at_most("failed beside a hanging quarter", "puts", 0.0, failed, failed_without=before)


def _failed(run: LoadResult, seconds: float) -> int:
    """Puts that were due and not acknowledged, also those that were never sent."""
    return int(RATE * seconds) - run.requests


class _Pair:
    """Two tenants on one server, and the switch that lets the commits of one of them hang."""

    def __init__(self, plan: Plan) -> None:
        self.switch = plan.work / "hang-quarter-prefix"
        self._plan = plan
        self._binary = load.build_open_loop(plan.work)

    def create(self, server: ServerProcess) -> None:
        """A topic of each; every partition has had a put afterwards."""
        self._port = server.port
        self._client = Client(server.port)
        sick_client = Client(server.port, new_tenant(server.port, "sick"))
        self._sick = sick_client.create_topic("sick", HANGING_PARTITIONS)
        self._other = self._client.create_topic("well", OTHER_PARTITIONS)
        self._load_sick(2.0)
        self._load_other(2.0)

    def measure(self, hang: bool) -> tuple[LoadResult, LoadResult]:
        """Both loads for the same time, the sick one already settled: of the other, of the sick."""
        time.sleep(SETTLE_S)
        if hang:
            self.switch.write_text(self._sick.storage_prefix)
        before = self._other.stored_messages(self._client)
        with ThreadPoolExecutor(1) as pool:
            sick = pool.submit(self._load_sick, SETTLE_S + self._plan.seconds)
            time.sleep(SETTLE_S)
            other = self._load_other(self._plan.seconds)
            ended = sick.result()
        self.switch.unlink(missing_ok=True)
        stored = self._other.stored_messages(self._client) - before
        if stored < other.requests:
            raise RuntimeError(f"{other.requests} puts were answered but only {stored} are stored")
        return other, ended

    def _load_sick(self, seconds: float) -> LoadResult:
        return load.open_loop(
            self._binary,
            self._port,
            self._signed(self._sick),
            connections=HANGING_CONNECTIONS,
            rate=HANGING_RATE,
            seconds=seconds,
        )

    def _load_other(self, seconds: float) -> LoadResult:
        return load.open_loop(
            self._binary,
            self._port,
            self._signed(self._other),
            connections=CONNECTIONS,
            rate=RATE,
            seconds=seconds,
        )

    def _signed(self, topic: BenchTopic) -> Path:
        """Signed again for each load: a signature is valid only for some minutes."""
        requests = topic.put_requests(block_bytes=MESSAGE_BYTES, turns=topic.partitions)
        return load.write_request_file(self._plan.work / f"{topic.name}-quarter.bin", requests)
