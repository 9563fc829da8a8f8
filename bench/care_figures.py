"""What the care of stored data costs: the scrub beside puts, and end marks at a low rate."""

import statistics
import urllib.request
from collections.abc import Iterator

from bench import load
from bench.client import Client
from bench.plan import Plan
from bench.put_figures import MESSAGE_BYTES, PARTITIONS, UNLIMITED, Settings
from bench.report import Figure, at_least, at_most
from bench.server import ServerProcess

MEBI = 1 << 20
OPEN: Settings = {**UNLIMITED, "metrics": {"access": "open"}}
SCRUBBED_PARTITIONS = 2
LOW_RATE = 40.0  # puts/s over all partitions: each is idle for longer than end_mark_ms in between


def scrub(plan: Plan) -> Iterator[Figure]:
    """Puts with the scrub at its default rate and without it, in turn; a pass follows a pass.

    On two partitions, because the scrub stands back while partitions wait for a commit lane: with
    eight of them it would read next to nothing, and the figure would say nothing.
    """
    for durability in ("synced", "flushed"):
        ratios, scrubbed, rates = [], 0.0, {}
        for _ in range(plan.repeats):
            for care in ({"scrub_interval_s": 1.0}, {"scrub_bytes_per_s": 0}):
                log = {"segment_bytes_max": 16 << 20, **care}
                rate, read = _rate(plan, durability, {**OPEN, "log": log})
                rates["scrub_interval_s" in care] = rate
                scrubbed += read
            ratios.append(rates[True] / rates[False])
        name = f"{durability} puts, scrub on / off"
        if not scrubbed:
            raise RuntimeError(f"{name}: nothing was scrubbed, so nothing was measured")
        yield at_least(name, "x", 0.98, ratios, scrubbed_MiB=scrubbed / MEBI, on=rates[True])


def _rate(plan: Plan, durability: str, settings: Settings) -> tuple[float, float]:
    """Puts per second over sealed segments that the same load made before; bytes scrubbed."""
    with ServerProcess(plan.folder("scrub"), settings=settings) as server:
        topic = Client(server.port).create_topic("puts", SCRUBBED_PARTITIONS, durability=durability)
        requests = load.write_request_file(
            plan.work / "scrub.bin", topic.put_requests(block_bytes=MESSAGE_BYTES)
        )
        load.closed_loop(server.url, requests, connections=64, seconds=plan.seconds)
        before = _metric(server, "log_scrubbed_bytes_total")
        run = load.closed_loop(server.url, requests, connections=64, seconds=plan.seconds)
        return run.requests_per_s, _metric(server, "log_scrubbed_bytes_total") - before


def end_marks(plan: Plan) -> Iterator[Figure]:
    """Puts at a low rate with end marks and without them, in turn: both percentiles."""
    binary = load.build_open_loop(plan.work)
    ratios: dict[str, list[float]] = {"p50": [], "p99": []}
    marks = 0.0
    for _ in range(max(plan.repeats, plan.latency_repeats)):
        runs = {}
        for mark_ms in (50, 0):
            settings = {**OPEN, "log": {"end_mark_ms": mark_ms}}
            with ServerProcess(plan.folder("marks"), settings=settings) as server:
                topic = Client(server.port).create_topic("puts", PARTITIONS)
                requests = load.write_request_file(
                    plan.work / "marks.bin", topic.put_requests(block_bytes=MESSAGE_BYTES)
                )
                runs[mark_ms] = load.open_loop(
                    binary,
                    server.port,
                    requests,
                    connections=PARTITIONS,
                    rate=LOW_RATE,
                    seconds=plan.seconds,
                )
                marks += _metric(server, "log_end_marks_total")
        ratios["p50"].append(runs[50].p50_us / runs[0].p50_us)
        ratios["p99"].append(runs[50].p99_us / runs[0].p99_us)
    notes = {"marks": marks, "p99_on_ms": runs[50].p99_us / 1e3, "p99_off_ms": runs[0].p99_us / 1e3}
    p50s = {"p50_on_ms": runs[50].p50_us / 1e3, "p50_off_ms": runs[0].p50_us / 1e3}
    yield at_most("P50 at 40 puts/s, end marks on / off", "x", 1.05, ratios["p50"], **p50s)
    yield at_most("P99 at 40 puts/s, end marks on / off", "x", 1.25, ratios["p99"], **notes)
    if not marks:
        raise RuntimeError(f"no end mark was written: {statistics.median(ratios['p50'])}")


def _metric(server: ServerProcess, name: str) -> float:
    with urllib.request.urlopen(f"{server.url}/metrics", timeout=10) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith(f"opentalos_{name} "):
                return float(line.split()[1])
    raise RuntimeError(f"/metrics has no {name}")
