"""The accelerator off and on: puts, CPU time per put and P99, in turn on one machine."""

import statistics
from collections.abc import Iterator

from bench import load
from bench.client import Client
from bench.plan import Plan
from bench.put_figures import MESSAGE_BYTES, PARTITIONS, UNLIMITED, closed_loop_run
from bench.report import Figure
from bench.server import ServerProcess

PAIRS_MIN = 4
SHARE_OF_RATE = 0.5  # of the median rate without the accelerator, for the P99
CONNECTIONS = (8, 64)
SETTINGS = ("off", "required")


def accelerator(plan: Plan) -> Iterator[Figure]:
    """Ratios of each pair; the order within a pair changes from one to the next."""
    pairs = plan.repeats if plan.repeats == 1 else max(PAIRS_MIN, plan.repeats)
    for durability, connections in [("synced", each) for each in CONNECTIONS] + [("flushed", 64)]:
        runs: dict[str, list[dict[str, float]]] = {setting: [] for setting in SETTINGS}
        for number in range(pairs):
            for setting in SETTINGS if number % 2 == 0 else SETTINGS[::-1]:
                with _server(plan, setting) as server:
                    topic = Client(server.port).create_topic(
                        "puts", PARTITIONS, durability=durability
                    )
                    runs[setting].append(closed_loop_run(plan, server, topic, connections))
        label = f"{durability} puts, {connections} connections"
        for key, name in (
            ("requests_per_s", f"{label}: rate with the accelerator / without"),
            ("server_us_per_put", f"{label}: CPU per put with the accelerator / without"),
        ):
            without, with_it = ([run[key] for run in runs[setting]] for setting in SETTINGS)
            ratios = [on / off for on, off in zip(with_it, without, strict=True)]
            notes: dict[str, float | str] = {
                "off": statistics.median(without),
                "on": statistics.median(with_it),
            }
            yield Figure(name=name, unit="x", values=ratios, notes=notes)
        if (durability, connections) == ("synced", 64):
            rate = statistics.median(run["requests_per_s"] for run in runs["off"]) * SHARE_OF_RATE
            yield _latency(plan, pairs, rate)


def _latency(plan: Plan, pairs: int, rate: float) -> Figure:
    """P99 of an open loop at the same rate for both."""
    binary = load.build_open_loop(plan.work)
    p99_ms: dict[str, list[float]] = {setting: [] for setting in SETTINGS}
    for number in range(pairs):
        for setting in SETTINGS if number % 2 == 0 else SETTINGS[::-1]:
            with _server(plan, setting) as server:
                topic = Client(server.port).create_topic("puts", PARTITIONS)
                requests = load.write_request_file(
                    plan.work / "open.bin", topic.put_requests(block_bytes=MESSAGE_BYTES)
                )
                run = load.open_loop(
                    binary,
                    server.port,
                    requests,
                    connections=64,
                    rate=rate,
                    seconds=plan.seconds,
                )
                p99_ms[setting].append(run.p99_us / 1e3)
    ratios = [on / off for on, off in zip(p99_ms["required"], p99_ms["off"], strict=True)]
    return Figure(
        name="P99 at half the rate with the accelerator / without",
        unit="x",
        values=ratios,
        notes={
            "off_ms": statistics.median(p99_ms["off"]),
            "on_ms": statistics.median(p99_ms["required"]),
            "puts_per_s": rate,
        },
    )


def _server(plan: Plan, setting: str) -> ServerProcess:
    settings = {**UNLIMITED, "storage": {"accelerator": setting}}
    return ServerProcess(plan.folder(f"accelerator-{setting}"), settings=settings)
