"""``make bench-sdk``: our SDK compared with the official SDK, in messages per CPU second.

Each job runs in a separate process, alternating between both SDKs, against one server on this
machine. CPU seconds cover all threads of the client process; those of the server are notes.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from bench.builds import Build, fastest_package
from bench.client import Client
from bench.codec_figures import codec
from bench.kafka_figures import MESSAGE_BYTES, Own, against_kafka
from bench.plan import Plan
from bench.put_figures import UNLIMITED
from bench.report import Figure, at_least, at_most, table, write_json
from bench.sdk_group import grow
from bench.server import KEY_ID, SECRET, ServerProcess

ROOT: Final = Path(__file__).resolve().parent.parent
OUT: Final = Path(__file__).parent / "out" / "bench-sdk.json"
OFFICIAL_PYTHON: Final = ROOT / ".sdk-venv" / "bin" / "python"
NO_NETWORK: Final = ROOT / "tests" / "compat" / "no_network"
JOB_TIMEOUT_S: Final = 600.0
PARTITIONS: Final = 8
OFFICIAL_JOBS: Final = {  # what comes closest, where it has no such call
    "put_arrow": "put_many",
    "fetch_arrow": "fetch",
    "consume_arrow": "consume",
}
UNIT: Final = "messages/CPU s"
_QUICK_SHARE: Final = 10  # --quick does a tenth of the messages


class Job(NamedTuple):
    """The job of a client process."""

    name: str
    size: int  # bytes of a message
    messages: int
    compression: str = ""  # of puts; empty: the default


class Bench:
    """Runs jobs against one server."""

    def __init__(self, server: ServerProcess, plan: Plan, share: int) -> None:
        self.server, self.plan = server, plan
        self.share = share
        self._groups = 0

    def topic(self, name: str, partitions: int = PARTITIONS, durability: str = "flushed") -> None:
        """Create a topic; by default its puts do not wait for the disk: the client is measured."""
        Client(self.server.port).create_topic(name, partitions, durability=durability)

    def arguments(self, job: Job, topic: str) -> dict[str, Any]:
        """The argument of a client process; each process has its own group."""
        self._groups += 1
        return {
            "url": self.server.url,
            "key_id": KEY_ID,
            "secret": SECRET,
            "topic": topic,
            "partitions": PARTITIONS,
            "group": f"group-{self._groups}",
            "job": job.name,
            "size": job.size,
            "compression": job.compression,
            "messages": max(10_000, job.messages // self.share),
        }

    def run(self, job: Job, topic: str, *, official: bool = False) -> dict[str, float]:
        """Run one process; its rate by CPU and wall-clock time, and the server's CPU seconds."""
        arguments = self.arguments(job, topic)
        server_s = self.server.cpu_s()
        done = _process(arguments, official=official)
        return {
            "rate": done["messages"] / done["cpu_s"],
            "wall_rate": done["messages"] / done["wall_s"],
            "us": done["cpu_s"] / done["messages"] * 1e6,
            "server_us": (self.server.cpu_s() - server_s) / done["messages"] * 1e6,
        }

    def compare(
        self, name: str, job: Job, topic: str, goal: float, times: float
    ) -> Iterator[Figure]:
        """Alternate both SDKs: the rate against ``goal`` (0: none), the ratio
        against ``times``."""
        official = OFFICIAL_JOBS.get(job.name, job.name)
        other = job._replace(name=official, messages=job.messages // 5)
        ours, theirs = [], []
        for _ in range(self.plan.repeats):
            ours.append(self.run(job, topic))
            theirs.append(self.run(other, topic, official=True))
        title, rates, notes = f"{name}, {job.size} B", [run["rate"] for run in ours], _notes(ours)
        if goal:
            yield at_least(title, UNIT, goal, rates, **notes)
        else:
            yield Figure(name=title, unit=UNIT, values=rates, notes=dict(notes))
        ratios = [
            own["rate"] / official["rate"] for own, official in zip(ours, theirs, strict=True)
        ]
        others = {f"official_{key}": value for key, value in _notes(theirs).items()}
        official_rate = statistics.median(run["rate"] for run in theirs)
        yield at_least(
            f"{name}, {job.size} B, against the official SDK's {official}",
            "times",
            times,
            ratios,
            official_rate=official_rate,
            **others,
        )


def _notes(runs: list[dict[str, float]]) -> dict[str, float]:
    return {
        key: statistics.median(run[key] for run in runs) for key in ("us", "server_us", "wall_rate")
    }


def _process(arguments: dict[str, Any], *, official: bool) -> dict[str, float]:
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    python, module = sys.executable, "bench.sdk_load"
    if official:
        python, module = str(OFFICIAL_PYTHON), "bench.sdk_official"
        kept |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{NO_NETWORK}", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [python, "-m", module, json.dumps(arguments)],
        cwd=ROOT,
        env=kept,
        capture_output=True,
        text=True,
        timeout=JOB_TIMEOUT_S,
    )
    if done.returncode:
        raise RuntimeError(f"{module} {arguments['job']}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def producer(bench: Bench) -> Iterator[Figure]:
    """Put 1 KiB messages one by one, by the thousand, and as tables."""
    bench.topic("puts")
    size = 1024
    yield from bench.compare("put", Job("put", size, 200_000), "puts", 40_000, 3)
    yield from bench.compare("put_many", Job("put_many", size, 500_000), "puts", 250_000, 3)
    yield from bench.compare("put_arrow", Job("put_arrow", size, 500_000), "puts", 250_000, 3)


def consumer(bench: Bench) -> Iterator[Figure]:
    """Read messages as objects and as tables, in a group and by offset."""
    for size, messages in ((100, 1_000_000), (1024, 300_000)):
        topic = f"reads-{size}"
        bench.topic(topic)
        bench.run(Job("fill", size, messages), topic)
        objects, rows = (200_000, 1_000_000) if size == 100 else (0, 0)  # goals are for 100 B
        for name in ("consume", "fetch"):
            yield from bench.compare(name, Job(name, size, messages), topic, objects, 5)
        for name in ("consume_arrow", "fetch_arrow"):
            yield from bench.compare(name, Job(name, size, messages), topic, rows, 5)


def memory(bench: Bench) -> Iterator[Figure]:
    """Memory growth of a producer without a server, compared with its buffer limit."""
    bench.topic("dead")
    for size in (16, 1024):
        arguments = bench.arguments(Job("memory", size, 0), "dead")
        command = [sys.executable, "-m", "bench.sdk_memory", json.dumps(arguments)]
        with subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            bench.server.kill()
            out, _ = process.communicate("\n", timeout=JOB_TIMEOUT_S)
        bench.server.start()
        if process.returncode:
            raise RuntimeError("the producer of the memory figure failed")
        found: dict[str, float] = json.loads(out.splitlines()[-1])
        yield at_most(
            f"memory of a producer without a server, {size} B, against its bound",
            "times",
            1.25,
            [found["grown_bytes"] / found["bound_bytes"]],
            **found,
        )


def group(bench: Bench) -> Iterator[Figure]:
    """A second worker joins a group of one worker and 100 partitions."""
    yield from grow(bench.server)


def kafka(bench: Bench) -> Iterator[Figure]:
    """Producer and consumer against Apache Kafka's."""

    def create(topic: str, durability: str) -> None:
        bench.topic(topic, durability=durability)

    def run(job: str, topic: str, messages: int) -> dict[str, float]:
        return bench.run(Job(job, MESSAGE_BYTES, messages, "NONE"), topic)

    yield from against_kafka(bench.plan, Own(create, run, bench.share))


GROUPS: Final[dict[str, Callable[[Bench], Iterator[Figure]]]] = {
    "producer": producer,
    "consumer": consumer,
    "memory": memory,
    "group": group,
    "kafka": kafka,
}


def _server(plan: Plan, group: str) -> ServerProcess:
    """Against Kafka as quick as it can be installed; else as it is in the sources."""
    if group == "kafka":
        return Build(group, fastest_package(ROOT)).server(plan.folder(group))
    return ServerProcess(plan.folder(group), settings=UNLIMITED)


def main() -> int:
    """Exit with 0 if everything was measured, whether or not goals were met."""
    names = ["codec", *GROUPS]
    parser = argparse.ArgumentParser(description="Benchmarks of the Python SDK on this machine.")
    parser.add_argument("group", nargs="*", help=f"some of: {', '.join(names)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="short single runs, to see it work")
    arguments = parser.parse_args()
    if unknown := set(arguments.group) - set(names):
        parser.error(f"unknown group {sorted(unknown)}; known: {', '.join(names)}")
    figures: list[Figure] = []
    failed = []
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT.parent, prefix="work-") as work:
        plan = Plan(work=Path(work), repeats=1 if arguments.quick else 3)
        for name in arguments.group or names:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            try:
                if name == "codec":
                    figures += codec(plan)
                    continue
                with _server(plan, name) as server:
                    share = _QUICK_SHARE if arguments.quick else 1
                    figures += GROUPS[name](Bench(server, plan, share))
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                failed.append(name)
                print(f"{name} could not be measured: {error}", file=sys.stderr)
    write_json(OUT, figures)
    print(table(figures))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
