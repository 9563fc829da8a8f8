"""Benchmarks of the write path."""

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench import disk, load
from bench.client import BenchTopic, Client
from bench.plan import Plan
from bench.report import Figure, at_least, at_most
from bench.server import ServerProcess

MESSAGE_BYTES = 1024
PARTITIONS = 8
OPEN_RATE = 5_000.0
Settings = Mapping[str, Mapping[str, object]]
UNLIMITED: Settings = {
    "quota": {
        "user_put_requests_per_s": 10_000_000,
        "topic_put_requests_per_s": 10_000_000,
        "user_put_bytes_per_s": 100 << 30,
        "topic_put_bytes_per_s": 100 << 30,
        "user_get_bytes_per_s": 100 << 30,
        "topic_get_bytes_per_s": 100 << 30,
        "user_get_requests_per_s": 10_000_000,
        "topic_get_requests_per_s": 10_000_000,
    }
}


def closed_loop_puts(plan: Plan) -> Iterator[Figure]:
    """Signed 1 KiB puts, 64 and 256 connections, synced and flushed."""
    for durability, connections, goal in (
        ("synced", 64, 12_000.0),
        ("flushed", 64, 20_000.0),
        ("synced", 256, 0.0),
    ):
        with ServerProcess(plan.folder(f"put-{durability}"), settings=UNLIMITED) as server:
            topic = Client(server.port).create_topic("puts", PARTITIONS, durability=durability)
            runs = [closed_loop_run(plan, server, topic, connections) for _ in range(plan.repeats)]
        name = f"{durability} puts, {connections} connections"
        rates = [run["requests_per_s"] for run in runs]
        notes = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        del notes["requests_per_s"]
        if goal:
            yield at_least(name, "puts/s", goal, rates, **notes)
        else:
            yield Figure(name=name, unit="puts/s", values=rates, notes=dict(notes))


def closed_loop_run(
    plan: Plan, server: ServerProcess, topic: BenchTopic, connections: int
) -> dict[str, float]:
    """One closed-loop run; verifies that the log contains every acknowledged message."""
    client = Client(server.port)
    requests = load.write_request_file(
        plan.work / "put.bin", topic.put_requests(block_bytes=MESSAGE_BYTES)
    )
    before, cpu = topic.stored_messages(client), server.cpu_s()
    run = load.closed_loop(server.url, requests, connections=connections, seconds=plan.seconds)
    server_cpu = server.cpu_s() - cpu
    stored = topic.stored_messages(client) - before
    if stored < run.requests - run.errors:
        raise RuntimeError(f"{run.requests} puts were answered but only {stored} are stored")
    return {
        "requests_per_s": run.requests_per_s,
        "p99_ms": run.p99_us / 1e3,
        "errors": run.errors + max(0, run.requests - stored),
        "server_us_per_put": server_cpu / run.requests * 1e6,
        "client_cpu_s": run.client_cpu_s,
        "server_cpu_s": server_cpu,
    }


def group_commit_gain(plan: Plan) -> Iterator[Figure]:
    """The same server with group commit on and off, on the real disk and with a 5 ms sync."""
    for label, delay_s, connections, goal in (
        ("real disk, 64 connections", 0.0, 64, 0.0),
        ("real disk, 256 connections", 0.0, 256, 0.0),
        ("5 ms sync, 256 connections", 0.005, 256, 10.0),
    ):
        ratios = []
        for _ in range(plan.repeats):
            rates = {}
            for grouped in (True, False):
                settings = {**UNLIMITED, "log": {"group_commit": grouped}}
                folder = plan.folder(f"group-{grouped}")
                launcher = plan.faulty_launcher(sync_delay_s=delay_s) if delay_s else None
                with ServerProcess(folder, settings=settings, launcher=launcher) as server:
                    topic = Client(server.port).create_topic("puts", PARTITIONS)
                    rates[grouped] = closed_loop_run(plan, server, topic, connections)[
                        "requests_per_s"
                    ]
            ratios.append(rates[True] / rates[False])
        name = f"group commit on / off, {label}"
        notes = {"on": rates[True], "off": rates[False]}
        if goal:
            yield at_least(name, "x", goal, ratios, **notes)
        else:
            yield Figure(name=name, unit="x", values=ratios, notes=dict(notes))


def open_loop_latency(plan: Plan) -> Iterator[Figure]:
    """P99 at 5,000 puts/s from the intended send, against a bare append + fdatasync loop."""
    binary = load.build_open_loop(plan.work)
    p99s, bare_p99s, notes = [], [], {}
    with ServerProcess(plan.folder("open"), settings=UNLIMITED) as server:
        topic = Client(server.port).create_topic("puts", PARTITIONS)
        requests = load.write_request_file(
            plan.work / "open.bin", topic.put_requests(block_bytes=MESSAGE_BYTES)
        )
        for _ in range(max(plan.repeats, plan.latency_repeats)):
            bare = disk.synced_append_latencies_s(plan.work, seconds=plan.seconds / 2)
            bare_p99s.append(bare[int(len(bare) * 0.99)] * 1e3)
            cpu = server.cpu_s()
            run = load.open_loop(
                binary,
                server.port,
                requests,
                connections=64,
                rate=OPEN_RATE,
                seconds=plan.seconds,
            )
            p99s.append(run.p99_us / 1e3)
            notes = {
                "p50_ms": run.p50_us / 1e3,
                "max_ms": run.max_us / 1e3,
                "errors": float(run.errors),
                "server_us_per_put": (server.cpu_s() - cpu) / max(run.requests, 1) * 1e6,
                "client_cpu_s": run.client_cpu_s,
            }
    bare_ms = statistics.median(bare_p99s)
    goal = max(5.0, 1.5 * bare_ms)
    yield at_most("P99 at 5,000 puts/s", "ms", goal, p99s, bare_p99_ms=bare_ms, **notes)


def batched_puts(plan: Plan) -> Iterator[Figure]:
    """1 MiB blocks compared with the raw synced write rate of the disk."""
    shares, notes = [], {}
    with ServerProcess(plan.folder("batched"), settings=UNLIMITED) as server:
        client = Client(server.port)
        topic = client.create_topic("puts", PARTITIONS)
        requests = load.write_request_file(
            plan.work / "batched.bin",
            topic.put_requests(block_bytes=disk.LARGE_BYTES, messages=1024, turns=PARTITIONS),
        )
        for _ in range(plan.repeats):
            bare = disk.synced_write_bytes_per_s(plan.work, seconds=plan.seconds / 2)
            run = load.closed_loop(server.url, requests, connections=8, seconds=plan.seconds)
            rate = run.requests_per_s * disk.LARGE_BYTES
            shares.append(rate / bare * 100)
            notes = {"MB_per_s": rate / 1e6, "disk_MB_per_s": bare / 1e6, "errors": run.errors}
    yield at_least("1 MiB blocks against synced disk writes", "%", 60.0, shares, **notes)


def hanging_topic(plan: Plan) -> Iterator[Figure]:
    """The slowdown of a topic while the storage of another one hangs."""
    binary = load.build_open_loop(plan.work)
    changes, notes = [], {}
    for _ in range(plan.repeats):
        p99 = {}
        for hang in (False, True):
            switch = plan.work / "hang-prefix"
            switch.unlink(missing_ok=True)
            launcher = plan.faulty_launcher(hang_file=switch)
            folder = plan.folder(f"hang-{hang}")
            with ServerProcess(folder, settings=UNLIMITED, launcher=launcher) as server:
                p99[hang] = _p99_beside(plan, binary, server, switch if hang else None)
        changes.append((p99[True] / p99[False] - 1) * 100)
        notes = {"p99_ms_without": p99[False] / 1e3, "p99_ms_with": p99[True] / 1e3}
    yield at_most("P99 of a topic beside a hanging one", "% more", 10.0, changes, **notes)


def _p99_beside(plan: Plan, binary: Path, server: ServerProcess, switch: Path | None) -> float:
    client = Client(server.port)
    sick = client.create_topic("sick", PARTITIONS)
    well = client.create_topic("well", PARTITIONS)
    sick_file = load.write_request_file(
        plan.work / "sick.bin", sick.put_requests(block_bytes=MESSAGE_BYTES)
    )
    well_file = load.write_request_file(
        plan.work / "well.bin", well.put_requests(block_bytes=MESSAGE_BYTES)
    )
    warm = {"connections": 16, "rate": 500.0, "seconds": 2.0}
    for file in (sick_file, well_file):
        load.open_loop(binary, server.port, file, **warm)  # type: ignore[arg-type]
    with plan.background_load(binary, server.port, sick_file):
        if switch is not None:
            switch.write_text(sick.storage_prefix)
        run = load.open_loop(
            binary, server.port, well_file, connections=64, rate=2_000.0, seconds=plan.seconds
        )
    return run.p99_us
