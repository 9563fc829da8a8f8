"""``make bench-sds``: structured tables, with a stream and without, on SQLite and on HBase.

    python -m bench.sds_figures [--quick] [local] [hbase]

Writes bench/out/sds.json and the picture bench/out/sds_shards.svg.
"""

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple

from bench import load
from bench.backends import running_backends
from bench.client import BenchTopic, Client
from bench.cluster_servers import Cluster
from bench.line_picture import Labels, Line, draw
from bench.load import LoadResult, MissingTool
from bench.plan import Plan
from bench.put_figures import UNLIMITED
from bench.report import Figure, at_least, table, write_json
from bench.sds_tables import BenchTable
from bench.sds_visible import visible
from bench.server import ServerProcess
from opentalos.backends.places import BackendError

OUT = Path(__file__).parent / "out"
PARTITIONS = 8
SHARDS = (1, 2, 4, 8)
CONNECTIONS = 256  # of single-row puts; commit groups need concurrency
BATCH, BATCH_CONNECTIONS = 64, 8  # the rows of a table are whole batches
SHARD_CONNECTIONS = 256
WARM_UP_S = 3
DELIVERED_S = 60.0  # until the stream has what was put


class Place(NamedTuple):
    """A place of measurement with its goals."""

    name: str
    server: ServerProcess
    create_topic: Callable[[str, int], BenchTopic]
    puts_per_s: float  # with a stream; 0: only reported
    ratio: float  # against the same without a stream
    visible_ms: float


class Bench:
    """The benchmarks of each place."""

    def __init__(self, plan: Plan, binary: Path) -> None:
        self.plan, self._binary = plan, binary
        self.lines: dict[str, Line] = {}

    def measure(self, place: Place) -> Iterator[Figure]:
        """All figures of a place."""
        client = Client(place.server.port)
        topic = place.create_topic("followed-log", PARTITIONS)
        plain = BenchTable(client, "plain", shards=PARTITIONS, topic=None)
        followed = BenchTable(client, "followed", shards=PARTITIONS, topic=topic)
        yield visible(
            place.name,
            place.server.port,
            followed,
            seconds=self.plan.seconds,
            goal_ms=place.visible_ms,
        )
        yield from self._against(place, plain, followed, 1, CONNECTIONS)
        yield from self._against(place, plain, followed, BATCH, BATCH_CONNECTIONS)
        yield from self._shards(place)

    def _against(
        self, place: Place, plain: BenchTable, followed: BenchTable, batch: int, connections: int
    ) -> Iterator[Figure]:
        """Alternate the same load between both tables."""
        rates: dict[str, list[float]] = {plain.name: [], followed.name: []}
        p99s: dict[str, list[float]] = {plain.name: [], followed.name: []}
        cpu_us: dict[str, list[float]] = {plain.name: [], followed.name: []}
        for target in (plain, followed):
            self._load(place, target, batch, connections, WARM_UP_S)
        for _ in range(self.plan.repeats):
            for target in (plain, followed):
                cpu_s = place.server.cpu_s()
                run = self._load(place, target, batch, connections, self.plan.seconds)
                cpu_us[target.name].append(
                    (place.server.cpu_s() - cpu_s) / (run.requests * batch) * 1e6
                )
                rates[target.name].append(run.requests_per_s * batch)
                p99s[target.name].append(run.p99_us / 1e3)
        how = "single puts" if batch == 1 else f"batches of {batch}"
        name = f"{place.name}: {how}, {connections} connections"
        notes = {
            target.name: {
                "p99_ms": statistics.median(p99s[target.name]),
                "server_us_per_put": statistics.median(cpu_us[target.name]),
            }
            for target in (plain, followed)
        }
        yield Figure(
            name=f"{name}, stream off",
            unit="puts/s",
            values=rates[plain.name],
            notes=dict(notes[plain.name]),
        )
        goal = place.puts_per_s if batch == 1 else 0.0
        on = f"{name}, stream on"
        if goal:
            yield at_least(on, "puts/s", goal, rates[followed.name], **notes[followed.name])
        else:
            yield Figure(
                name=on,
                unit="puts/s",
                values=rates[followed.name],
                notes=dict(notes[followed.name]),
            )
        ratios = [
            100 * with_it / without
            for with_it, without in zip(rates[followed.name], rates[plain.name], strict=True)
        ]
        yield at_least(f"{place.name}: {how}, stream on of off", "%", place.ratio, ratios)

    def _shards(self, place: Place) -> Iterator[Figure]:
        """The same load on tables with an increasing number of shards."""
        client = Client(place.server.port)
        line: dict[int, float] = {}
        for count in SHARDS:
            topic = place.create_topic(f"shards-{count}-log", PARTITIONS)
            target = BenchTable(client, f"shards-{count}", shards=count, topic=topic)
            self._load(place, target, 1, SHARD_CONNECTIONS, WARM_UP_S)
            rates = [
                self._load(place, target, 1, SHARD_CONNECTIONS, self.plan.seconds).requests_per_s
                for _ in range(self.plan.repeats)
            ]
            line[count] = statistics.median(rates)
            yield Figure(
                name=f"{place.name}: {count} shards, stream on", unit="puts/s", values=rates
            )
        self.lines[place.name] = line

    def _load(
        self, place: Place, target: BenchTable, batch: int, connections: int, seconds: int
    ) -> LoadResult:
        """A closed loop; verifies that the stream contains every acknowledged change."""
        requests = load.write_request_file(self.plan.work / "puts.bin", target.put_requests(batch))
        client = Client(place.server.port)
        before = target.topic.stored_messages(client) if target.topic else 0
        run = load.replay(
            self._binary,
            {place.server.port: requests},
            connections=connections,
            seconds=seconds,
        )
        if run.errors:
            raise RuntimeError(f"{run.errors} of {run.requests + run.errors} calls failed")
        if target.topic is not None:
            deadline_s = time.monotonic() + DELIVERED_S
            while target.topic.stored_messages(client) - before < run.requests * batch:
                if time.monotonic() > deadline_s:
                    raise RuntimeError(f"{run.requests * batch} puts, fewer messages in the stream")
                time.sleep(0.1)
        return run


def local(bench: Bench) -> Iterator[Figure]:
    """One server on this disk."""
    with ServerProcess(bench.plan.folder("sds"), settings=UNLIMITED) as server:
        client = Client(server.port)
        place = Place("SQLite", server, client.create_topic, 4_000.0, 70.0, 200.0)
        yield from bench.measure(place)


def hbase(bench: Bench) -> Iterator[Figure]:
    """One server of a cluster over HDFS, ZooKeeper and HBase."""
    with (
        running_backends(_say) as backends,
        Cluster(bench.plan.work, backends, ["s1"]) as cluster,
    ):
        place = Place("HBase", cluster.servers["s1"], cluster.create_topic, 0.0, 50.0, 500.0)
        yield from bench.measure(place)


GROUPS: dict[str, Callable[[Bench], Iterator[Figure]]] = {"local": local, "hbase": hbase}


def main() -> int:
    """Exit with 0 if everything was measured, whether or not goals were met."""
    parser = argparse.ArgumentParser(description="Figures of structured tables.")
    parser.add_argument("group", nargs="*", help=f"some of: {', '.join(GROUPS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="short single runs, to see it work")
    arguments = parser.parse_args()
    if unknown := set(arguments.group) - set(GROUPS):
        parser.error(f"unknown group {sorted(unknown)}; known: {', '.join(GROUPS)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # stops the child processes too
    OUT.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    failed = []
    with tempfile.TemporaryDirectory(dir=OUT, prefix="work-") as work:
        short = {"seconds": 3, "repeats": 1} if arguments.quick else {}
        plan = Plan(work=Path(work), **short)
        try:
            bench = Bench(plan, load.build_open_loop(plan.work))
            for name in arguments.group or GROUPS:
                _say(f"measuring {name} ...")
                try:
                    for figure in GROUPS[name](bench):
                        figures.append(figure)
                        _say(table([figure]).splitlines()[-1])
                except (RuntimeError, OSError, HTTPException) as error:
                    failed.append(name)
                    _say(f"{name} could not be measured: {error}")
        except (MissingTool, BackendError) as error:
            _say(str(error))
            return 1
        except KeyboardInterrupt:
            return 130  # as a shell reports Ctrl-C
    write_json(OUT / "sds.json", figures)
    if bench.lines:
        title = "Single puts a second, stream on, one server"
        draw(bench.lines, Labels(title, "shards of the table"), OUT / "sds_shards.svg")
    if figures:
        print(table(figures))
    print(f"\nload of the machine {os.getloadavg()[0]:.1f}; written to bench/out/sds.json")
    return 1 if failed else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
