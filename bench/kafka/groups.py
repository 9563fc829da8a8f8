"""The groups of figures. Rounds alternate between both systems; the first one changes."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.kafka.loads import BY_DEFAULT, LARGE_BATCHES, JavaTools, Settings, confluent, shown
from bench.kafka.result import Row
from bench.kafka.systems import (
    DISK,
    MEMORY,
    System,
    both,
    cpu_s,
    kafka_system,
    our_system,
    rss_mb,
)

TABLES: Final = (DISK, MEMORY)
SIZES: Final = {100: 100_000, 1024: 30_000, 65_536: 600}  # bytes: records of the first try
SIZE_NAMES: Final = {100: "100 B", 1024: "1 KiB", 65_536: "64 KiB"}
RECORDS_MIN: Final = 300
PARTITIONS: Final = 8
PACE_PER_S: Final = 5_000
MANY_PARTITIONS: Final = 1_000
CATCH_UP_BYTES: Final = 2 << 30
BESIDE_PER_S: Final = 5_000  # 1 KiB records while a consumer catches up
PRODUCERS: Final = 50
IDLE_S: Final = 3.0
PACED: Final[Settings] = {"acks": "all", "linger.ms": "0"}
SMALL: Final[Settings] = {"acks": "all", "linger.ms": "1", "batch.num.messages": "20"}


@dataclass
class Bench:
    """Both systems and how long to measure."""

    tools: JavaTools
    systems: tuple[System, System]
    quick: bool
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def rounds(self) -> int:
        """Of each figure."""
        return 1 if self.quick else 5

    @property
    def seconds(self) -> float:
        """Of a load."""
        return 2.0 if self.quick else 5.0

    def in_turn(self) -> Iterator[System]:
        """All rounds: A B B A A B ..."""
        for number in range(self.rounds):
            yield from self.systems if number % 2 == 0 else reversed(self.systems)

    def topics(self, partitions: int, table: str) -> str:
        """A new topic in both."""
        name = f"bench-{next(self._numbers)}"
        for system in self.systems:
            system.create(name, partitions, table)
        return name

    def drop(self, topic: str) -> None:
        """Its files go, so that the disk does not fill."""
        for system in self.systems:
            system.delete(topic)


def settings_of(settings: Settings, table: str) -> str:
    """What is shown beside a figure: the client's, and those of Kafka's topic."""
    topic = "flush.messages=1" if table == DISK else "topic: Kafka's defaults"
    return f"{shown(settings)}; {topic}"


def throughput(bench: Bench) -> Iterator[Row]:
    """As fast as one Java producer can."""
    for table, partitions, size in itertools.product(TABLES, (1, PARTITIONS), SIZES):
        if bench.quick and partitions == 1 and size != 1024:
            continue
        name = f"{SIZE_NAMES[size]}, {partitions} partition{'s' * (partitions > 1)}"
        yield _produced(bench, ("throughput", table, name), (partitions, size), LARGE_BATCHES)


def many_partitions(bench: Bench) -> Iterator[Row]:
    """One Java producer over a thousand partitions."""
    for table in (MEMORY,) if bench.quick else TABLES:
        labels = ("partitions", table, f"1 KiB, {MANY_PARTITIONS:,} partitions")
        yield _produced(bench, labels, (MANY_PARTITIONS, 1024), BY_DEFAULT)


def _produced(
    bench: Bench, labels: tuple[str, str, str], shape: tuple[int, int], settings: Settings
) -> Row:
    group, table, name = labels
    partitions, size = shape
    topic = bench.topics(partitions, table)
    row = Row(
        table=table,
        group=group,
        name=name,
        unit="records/s",
        more=True,
        settings=settings_of(settings, table),
    )
    records = {}
    for system in bench.systems:  # warms the server, and says how many records take the time
        rate = bench.tools.produce(system, topic, (SIZES[size], size), settings)
        records[system.name] = max(RECORDS_MIN, int(rate * bench.seconds))
    for system in bench.in_turn():
        count, before_s = records[system.name], cpu_s(system)
        row.add(system.name, bench.tools.produce(system, topic, (count, size), settings))
        # The records of the warm-up, a fifth more, are in the CPU time as well.
        row.add_cpu(system.name, cpu_s(system) - before_s, count * 1.2)
    bench.drop(topic)
    return row


def latency(bench: Bench) -> Iterator[Row]:
    """At a pace, from the time each message was due."""
    for table in TABLES:
        topic = bench.topics(PARTITIONS, table)
        rows = {
            part: Row(
                table=table,
                group="latency",
                name=f"{part.upper()}, {PACE_PER_S:,}/s of 1 KiB, {PARTITIONS} partitions",
                unit="ms",
                more=False,
                settings=settings_of(PACED, table),
            )
            for part in ("p50", "p99", "p99.9")
        }
        load = {
            "producer": PACED,
            "topic": topic,
            "size": 1024,
            "per_s": PACE_PER_S,
            "partitions": PARTITIONS,
            "seconds": 2 * bench.seconds,
        }
        for system in bench.in_turn():
            found = confluent("paced", system, load)
            if found["failed"]:
                raise RuntimeError(f"{found['failed']:.0f} messages failed on {system.name}")
            for part, row in rows.items():
                row.add(system.name, found[part])
        bench.drop(topic)
        yield from rows.values()


def producers(bench: Bench) -> Iterator[Row]:
    """Many producers that each send little at a time."""
    for table in TABLES:
        topic = bench.topics(PARTITIONS, table)
        row = Row(
            table=table,
            group="producers",
            name=f"100 B, {PRODUCERS} producers, {PARTITIONS} partitions",
            unit="records/s",
            more=True,
            settings=settings_of(SMALL, table),
        )
        load = {
            "producer": SMALL,
            "producers": PRODUCERS,
            "topic": topic,
            "size": 100,
            "waiting": 40,
            "partitions": PARTITIONS,
            "seconds": bench.seconds,
        }
        for system in bench.in_turn():
            before_s = cpu_s(system)
            found = confluent("many", system, load)
            if found["failed"]:
                raise RuntimeError(f"{found['failed']:.0f} messages failed on {system.name}")
            row.add(system.name, found["per_s"])
            row.add_cpu(system.name, cpu_s(system) - before_s, found["stored"])
        bench.drop(topic)
        yield row


def catch_up(bench: Bench) -> Iterator[Row]:
    """A Java consumer reads what lies there while a producer continues."""
    total = CATCH_UP_BYTES // (10 if bench.quick else 1)
    records, topic = total // 1024, bench.topics(PARTITIONS, MEMORY)
    row = Row(
        table=MEMORY,
        group="catch-up",
        name=f"{total >> 20:,} MiB of 1 KiB, {BESIDE_PER_S:,}/s more meanwhile",
        unit="MB/s",
        more=True,
        settings="consumer: defaults; topic: Kafka's defaults",
    )
    for system in bench.systems:
        bench.tools.produce(system, topic, (records, 1024), LARGE_BATCHES)
    for number, system in enumerate(bench.in_turn()):
        beside = bench.tools.producing(
            system, topic, (10 * records, 1024), BY_DEFAULT, per_s=BESIDE_PER_S
        )
        try:
            before_s = cpu_s(system)
            row.add(system.name, bench.tools.consume(system, topic, records, f"late-{number}"))
            row.add_cpu(system.name, cpu_s(system) - before_s, records)
        finally:
            beside.kill()
            beside.wait()
    bench.drop(topic)
    yield row


RUNNING: Final[dict[str, Callable[[Bench], Iterator[Row]]]] = {
    "throughput": throughput,
    "latency": latency,
    "producers": producers,
    "partitions": many_partitions,
    "catch-up": catch_up,
}


def start(work: Path, *, quick: bool) -> list[Row]:
    """Time to ready of an existing, empty data directory, and memory when idle."""
    ready = Row(table="", group="start", name="start", unit="s", more=False, settings="")
    idle = Row(table="", group="start", name="idle memory", unit="MB", more=False, settings="")
    for number in range(1 if quick else 5):
        folder = work / f"start-{number}"
        for opened in (our_system, kafka_system):
            with opened(folder) as (system, ready_s):
                time.sleep(IDLE_S)
                ready.add(system.name, ready_s)
                idle.add(system.name, rss_mb(system))
    return [ready, idle]


def measure(work: Path, wanted: Sequence[str], *, quick: bool) -> tuple[list[Row], list[str]]:
    """All rows, and the groups that failed with their reasons."""
    rows: list[Row] = []
    failed: list[str] = []
    if "start" in wanted:
        print("measuring start ...", flush=True)
        rows += start(work, quick=quick)
    running = [name for name in RUNNING if name in wanted]
    if not running:
        return rows, failed
    with both(work) as systems:
        bench = Bench(JavaTools(work), systems, quick)
        for name in running:
            print(f"measuring {name} ...", flush=True)
            try:
                for row in RUNNING[name](bench):
                    print(f"  {row.table} {row.name}: {row.values}", flush=True)
                    rows.append(row)
            except Exception as error:  # the other groups are still worth their time
                failed.append(f"{name}: {error}")
                print(f"  failed: {error}", flush=True)
    return rows, failed
