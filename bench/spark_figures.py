"""``make bench-spark``: ``format("talos")`` against Spark's Kafka connector, and the pipelines.

Both systems hold the same rows, in as many partitions, uncompressed, acknowledged without waiting
for the disk; the rounds alternate in one session. Ratios are of the same round.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from bench.report import Figure, at_least, table, write_json
from bench.spark_bench import SYSTEMS, Rounds, SparkBench, both
from bench.spark_latency import latency

ROOT: Final = Path(__file__).resolve().parent.parent
OUT: Final = Path(__file__).parent / "out" / "spark.json"
SIZES: Final = {100: 4_000_000, 1024: 1_000_000}  # bytes of a value: rows
TRIGGER_ROWS: Final = 250_000
GOALS: Final = {"batch": 3.0, "stream": 1.5, "sink": 1.0}
_QUICK_SHARE: Final = 20
_JOB_S: Final = 1800.0
OTHERS: Final = {
    "billing": "bench.billing_figures",
    "quota": "bench.quota_replay",
    "scale": "bench.pipeline_scale_figures",
}


class Sources:
    """The topics that the groups read, filled when they are first asked for."""

    def __init__(self, bench: SparkBench, *, quick: bool) -> None:
        self.bench = bench
        self.rounds = 2 if quick else 5
        self._share = _QUICK_SHARE if quick else 1
        self._filled: set[int] = set()

    def rows(self, size: int) -> int:
        """The number of rows of this size."""
        return SIZES[size] // self._share

    def topic(self, size: int) -> str:
        """A topic with the rows in both systems."""
        name = f"rows-{size}"
        if size not in self._filled:
            self._filled.add(size)
            self.bench.create(name)
            rows = self.bench.rows(self.rows(size), size)
            for system in SYSTEMS:
                self.bench.write(system, name, rows)
            rows.unpersist(blocking=True)
        return name

    def compare(self, name: str, size: int, job: Callable[[str], object]) -> Rounds:
        """Alternate both systems; the first one changes from round to round."""
        rounds = Rounds(f"{name} {size} B")
        for number in range(self.rounds):
            for system in SYSTEMS if number % 2 else reversed(SYSTEMS):
                timed = self.bench.timed(system, self.rows(size), lambda: job(system))  # noqa: B023
                rounds.of[system].append(timed)
        return rounds


def batch(sources: Sources) -> Iterator[Figure]:
    """Read all columns of a topic and discard them."""
    spark = sources.bench.spark
    for size in SIZES:
        topic = sources.topic(size)

        def job(system: str, topic: str = topic) -> None:
            options = sources.bench.reader_options(system, topic)
            rows = spark.read.format(system).options(**options).load()
            rows.write.format("noop").mode("overwrite").save()

        yield _figure("batch", sources.compare("batch", size, job))


def stream(sources: Sources) -> Iterator[Figure]:
    """The same as a stream, from ``start`` to the end."""
    spark = sources.bench.spark
    for size in SIZES:
        topic = sources.topic(size)

        def job(system: str, topic: str = topic) -> None:
            options = sources.bench.reader_options(system, topic, limit=TRIGGER_ROWS)
            rows = spark.readStream.format(system).options(**options).load()
            writer = rows.writeStream.format("noop").trigger(availableNow=True)
            query = writer.option("checkpointLocation", sources.bench.checkpoint()).start()
            query.awaitTermination()

        yield _figure("stream", sources.compare("stream", size, job))


def sink(sources: Sources) -> Iterator[Figure]:
    """Write rows from memory to a topic; Kafka with linger 5 ms and batches of 256 KiB."""
    for size in SIZES:
        topic = f"written-{size}"
        sources.bench.create(topic)
        rows = sources.bench.rows(sources.rows(size), size)

        def job(system: str, topic: str = topic, rows: object = rows) -> None:
            sources.bench.write(system, topic, rows)  # type: ignore[arg-type]

        yield _figure("sink", sources.compare("sink", size, job))
        rows.unpersist(blocking=True)


def _figure(group: str, rounds: Rounds) -> Figure:
    for line in rounds.lines():
        print(line, flush=True)
    name = f"{rounds.name}, rows/s against Kafka's connector"
    return at_least(name, "times", GOALS[group], rounds.ratios())


AGAINST_KAFKA: Final[dict[str, Callable[[Sources], Iterator[Figure]]]] = {
    "batch": batch,
    "stream": stream,
    "sink": sink,
}


def other(name: str, *, quick: bool) -> bool:
    """Run a separate benchmark program; return whether it met its goals."""
    command = [sys.executable, "-m", OTHERS[name], *(["--quick"] if quick else [])]
    return subprocess.run(command, cwd=ROOT, timeout=_JOB_S).returncode == 0


def main() -> int:
    """Exit with 0 if everything was measured, whether or not goals were met."""
    names = [*AGAINST_KAFKA, "latency", *OTHERS]
    parser = argparse.ArgumentParser(description="Benchmarks of the pipelines on this machine.")
    parser.add_argument("group", nargs="*", help=f"some of: {', '.join(names)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="few rows, to see it work")
    arguments = parser.parse_args()
    wanted = arguments.group or names
    if unknown := set(wanted) - set(names):
        parser.error(f"unknown group {sorted(unknown)}; known: {', '.join(names)}")
    figures: list[Figure] = []
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT.parent, prefix="work-") as work:
        if set(wanted) & set(AGAINST_KAFKA):
            with both(Path(work)) as bench:
                sources = Sources(bench, quick=arguments.quick)
                for name in AGAINST_KAFKA:
                    if name in wanted:
                        print(f"measuring {name} ...", flush=True)
                        figures += AGAINST_KAFKA[name](sources)
        if "latency" in wanted:
            print("measuring latency ...", flush=True)
            figures += latency(Path(work), seconds=60 if arguments.quick else 300)
    failed = [name for name in OTHERS if name in wanted and not other(name, quick=arguments.quick)]
    write_json(OUT, figures)
    print(table(figures))
    if failed:
        print(json.dumps({"failed": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
