"""Several server processes over one local directory: the figure of ADR 34, a spike.

They are a cluster whose logs are files of one directory and whose control records and rows are
SQLite files in it. One ordinary server with all partitions and connections is compared with them,
in turn; every put is sent to the process that has its partition.
"""

import statistics
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench import load
from bench.client import BenchTopic, Client, signed_request
from bench.cluster_servers import Cluster
from bench.plan import Plan
from bench.put_figures import MESSAGE_BYTES, PARTITIONS, UNLIMITED
from bench.report import Figure
from bench.server import ServerProcess
from opentalos.wire._generated.message import MESSAGE_SERVICE

PAIRS_MIN = 4
CONNECTIONS = 64
REQUESTS = 64  # in the file of each process
PROCESSES = ("p1", "p2")


class Processes(Cluster):
    """Servers whose stores are one directory."""

    def __init__(self, folder: Path) -> None:
        self._shared = folder / "shared"
        self._shared.mkdir(parents=True)
        self.launcher = [sys.executable, "-m", "bench.serve_shared"]
        super().__init__(folder, None, PROCESSES)

    def _sections(self, name: str, key_file: Path) -> dict[str, Mapping[str, object]]:
        shared = self._shared
        return {
            "storage": {
                "files": f"file://{shared}/log",
                "files_shared": True,
                "meta": f"sqlite://{shared}/meta.sqlite",
                "rows": f"sqlite://{shared}/rows.sqlite",
            },
            "cluster": {"name": name, "key_file": str(key_file), "stable_after_s": 1.0},
            **UNLIMITED,
        }


def processes(plan: Plan) -> Iterator[Figure]:
    """Ratios of each pair; the order within a pair changes from one to the next."""
    binary = load.build_open_loop(plan.work)
    pairs = plan.repeats if plan.repeats == 1 else max(PAIRS_MIN, plan.repeats)
    for durability in ("synced", "flushed"):
        single: list[dict[str, float]] = []
        several: list[dict[str, float]] = []
        for number in range(pairs):
            for runs, run in [(single, _one), (several, _several)][:: 1 if number % 2 else -1]:
                runs.append(run(plan, binary, durability))
        for key, name in (
            ("puts_per_s", f"{durability} puts, {len(PROCESSES)} processes / 1"),
            ("us_per_put", f"{durability} puts, CPU per put, {len(PROCESSES)} processes / 1"),
        ):
            yield Figure(
                name=name,
                unit="x",
                values=[b[key] / a[key] for a, b in zip(single, several, strict=True)],
                notes={
                    "one": statistics.median(run[key] for run in single),
                    "several": statistics.median(run[key] for run in several),
                    "client_cpus": statistics.median(run["client_cpus"] for run in several),
                },
            )


def _one(plan: Plan, binary: Path, durability: str) -> dict[str, float]:
    with ServerProcess(plan.folder("one"), settings=UNLIMITED) as server:
        topic = Client(server.port).create_topic("puts", PARTITIONS, durability=durability)
        return _run(plan, binary, topic, {server: list(range(PARTITIONS))})


def _several(plan: Plan, binary: Path, durability: str) -> dict[str, float]:
    with Processes(plan.folder("several")) as cluster:
        topic = cluster.create_topic("puts", PARTITIONS, durability=durability)
        owned: dict[ServerProcess, list[int]] = {}
        for partition, name in cluster.owners(topic).items():
            owned.setdefault(cluster.servers[name], []).append(partition)
        if len(owned) < len(PROCESSES):
            raise RuntimeError("a process has no partition")
        return _run(plan, binary, topic, owned)


def _run(
    plan: Plan, binary: Path, topic: BenchTopic, owned: Mapping[ServerProcess, list[int]]
) -> dict[str, float]:
    targets = {}
    for server, partitions in owned.items():
        bodies = [topic.put_body(partition, MESSAGE_BYTES) for partition in partitions]
        requests = [signed_request(MESSAGE_SERVICE.path, body) for body in bodies]
        targets[server.port] = load.write_request_file(
            plan.work / f"{server.port}.bin", requests * (REQUESTS // len(requests))
        )
    before_s = sum(server.cpu_s() for server in owned)
    run = load.replay(binary, targets, connections=CONNECTIONS, seconds=plan.seconds)
    cpu_s = sum(server.cpu_s() for server in owned) - before_s
    stored = topic.stored_messages(Client(next(iter(targets))))
    if stored < run.requests:
        raise RuntimeError(f"{run.requests} puts were answered but only {stored} are stored")
    return {
        "puts_per_s": run.requests_per_s,
        "us_per_put": cpu_s / max(run.requests, 1) * 1e6,
        "client_cpus": run.client_cpu_s / plan.seconds,
    }
