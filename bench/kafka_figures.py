"""Our SDK against Apache Kafka with its own tools: batches of a producer, and a consumer.

Both write the same bytes uncompressed, into eight partitions on the disk under test, and take
turns. Kafka's producer is measured with batches as large as ours and as it is by default.
"""

import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from bench.plan import Plan
from bench.report import Figure
from opentalos.backends.jars import fetch
from opentalos.backends.kafka import KafkaBackend
from opentalos.backends.places import BackendError
from opentalos.cli.demo.leftovers import guarded

PARTITIONS: Final = 8
MESSAGE_BYTES: Final = 1024
MEBI: Final = 1 << 20
PUTS: Final = {"synced": 200_000, "flushed": 400_000}
READS: Final = 600_000
WARM_RECORDS: Final = 50_000
CONSUMER_JOBS: Final = ("consume", "consume_batches", "consume_arrow")
BUDGET_S: Final = 240.0  # beyond it what is left is measured once
SYNCED: Final = ("flush.messages=1",)  # Kafka waits for the disk with each batch
# As our producer: batches of 1 MiB, 64 MiB of memory. They wait less, which suits a closed loop.
LARGE_BATCHES: Final = ("batch.size=1048576", "buffer.memory=67108864", "linger.ms=5")
BY_DEFAULT: Final = ()
_PRODUCER: Final = "org.apache.kafka.tools.ProducerPerformance"
_CONSUMER: Final = "org.apache.kafka.tools.ConsumerPerformance"
# Runs a job of sdk_load on a topic: name, topic, messages; its rate by the clock.
OwnJob = Callable[[str, str, int], Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Own:
    """Our side: makes topics and runs jobs."""

    create: Callable[[str, str], None]  # topic, durability
    run: OwnJob
    share: int  # of the messages: 10 runs a tenth


@dataclass
class Turns:
    """Rates by contender, a round after the other."""

    rates: dict[str, list[float]] = field(default_factory=dict)

    def add(self, name: str, rate: float) -> None:
        """Add a round of a contender."""
        self.rates.setdefault(name, []).append(rate)

    def ratio(self, title: str, own: str, other: str, goal: float) -> Figure:
        """Of a contender to another one, round by round."""
        pairs = zip(self.rates[own], self.rates[other], strict=True)
        ratios = [ours / theirs for ours, theirs in pairs]
        return Figure(
            name=title,
            unit="x",
            values=ratios,
            goal=f">= {goal:g}" if goal else "",
            met=statistics.median(ratios) >= goal if goal else None,
            notes={
                "ours": statistics.median(self.rates[own]),
                "kafka": statistics.median(self.rates[other]),
            },
        )


def against_kafka(plan: Plan, own: Own) -> Iterator[Figure]:
    """Raises: RuntimeError: Kafka does not start or run."""
    kafka = KafkaBackend(plan.work / "kafka")
    try:
        with guarded(plan.work / "kafka"):
            fetch("kafka", print)
            kafka.start(print, port=0)
            until_s = time.monotonic() + BUDGET_S
            for durability, goal in (("synced", 2.0), ("flushed", 1.2)):
                yield from _producers(plan, own, kafka, (durability, goal, until_s))
            yield from _consumers(plan, own, kafka, until_s)
    except BackendError as error:
        raise RuntimeError(str(error)) from error


def _producers(
    plan: Plan, own: Own, kafka: KafkaBackend, row: tuple[str, float, float]
) -> Iterator[Figure]:
    """Batches into a topic of its own, acknowledged by the disk or before."""
    durability, goal, until_s = row
    topic, messages = f"puts-{durability}", PUTS[durability] // own.share
    own.create(topic, durability)
    kafka.create_topic(topic, PARTITIONS, *(SYNCED if durability == "synced" else ()))
    turns = Turns()
    for number in range(plan.repeats):
        if number and time.monotonic() > until_s:
            break
        for name, settings in (("large", LARGE_BATCHES), ("default", BY_DEFAULT)):
            turns.add(name, produced_per_s(kafka, topic, messages, settings))
        for job in ("put_many", "put_arrow"):
            turns.add(job, own.run(job, topic, messages)["wall_rate"])
    for job in ("put_many", "put_arrow"):
        title = f"{job}, 1 KiB, 8 partitions, {durability}: messages/s against Kafka's producer"
        yield turns.ratio(f"{title}, batches of 1 MiB", job, "large", goal)
        yield turns.ratio(f"{title}, its default batches", job, "default", 0.0)


def _consumers(plan: Plan, own: Own, kafka: KafkaBackend, until_s: float) -> Iterator[Figure]:
    """A whole topic from the page cache, as one consumer of a new group."""
    topic, messages = "reads", READS // own.share
    own.create(topic, "flushed")
    kafka.create_topic(topic, PARTITIONS)
    own.run("fill", topic, messages)
    produced_per_s(kafka, topic, messages, LARGE_BATCHES, warm=False)
    turns = Turns()
    for number in range(plan.repeats):
        if number and time.monotonic() > until_s:
            break
        group = f"group-{number}"
        turns.add("kafka", consumed_mb_per_s(kafka, topic, messages, group))
        for job in CONSUMER_JOBS:
            rate = own.run(job, topic, messages)["wall_rate"]
            turns.add(job, rate * MESSAGE_BYTES / MEBI)
    for job in CONSUMER_JOBS:
        yield turns.ratio(f"{job}, 1 KiB: MB/s against Kafka's consumer", job, "kafka", 1.0)


def produced_per_s(
    kafka: KafkaBackend, topic: str, messages: int, settings: tuple[str, ...], *, warm: bool = True
) -> float:
    """Records a second of Kafka's own producer; a compiled JVM and open connections come first."""
    arguments = ["--topic", topic, "--record-size", str(MESSAGE_BYTES), "--throughput", "-1"]
    warmed = min(WARM_RECORDS, messages // 2) if warm else 0
    arguments += ["--num-records", str(messages + warmed)]
    if warm:
        arguments += ["--warmup-records", str(warmed)]
    bootstrap = f"bootstrap.servers={kafka.hosts}"
    arguments += ["--producer-props", bootstrap, "acks=all", *settings]
    return produced(kafka.tool(_PRODUCER, *arguments))


def produced(text: str) -> float:
    """The rate in the last line of a ProducerPerformance that is a total.

    Raises: RuntimeError: there is none.
    """
    found = re.findall(r"records sent, ([\d.]+) records/sec.*99\.9th", text)
    if not found:
        raise RuntimeError(f"unexpected output of Kafka's producer: {text[-500:]}")
    return float(found[-1])


def consumed_mb_per_s(kafka: KafkaBackend, topic: str, messages: int, group: str) -> float:
    """MB a second of Kafka's own consumer; it joins a new group first, as ours does."""
    arguments = ["--bootstrap-server", kafka.hosts, "--topic", topic, "--group", group]
    arguments += ["--num-records", str(messages), "--timeout", "30000"]
    return consumed(kafka.tool(_CONSUMER, *arguments), messages)


def consumed(text: str, messages: int) -> float:
    """MB.sec of a ConsumerPerformance. Raises: RuntimeError: not all, or no such output."""
    lines = [line.split(", ") for line in text.splitlines() if ", " in line]
    heads = [line for line in lines if "MB.sec" in line]
    if not heads or lines[-1] in heads:
        raise RuntimeError(f"unexpected output of Kafka's consumer: {text[-500:]}")
    values = dict(zip(heads[-1], lines[-1], strict=True))
    if int(values["data.consumed.in.nMsg"]) < messages:
        raise RuntimeError(f"Kafka's consumer read {values['data.consumed.in.nMsg']} messages")
    return float(values["MB.sec"])
