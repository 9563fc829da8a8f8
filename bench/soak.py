"""``make soak``: steady load for minutes; memory must level off, the event loop must not stall.

usage: python -m bench.soak [SECONDS]

Half of the capacity of one server, open loop, ten minutes by default: 5,000 synced puts per second
and a reader of one partition. Prints memory usage and the longest stall.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import load
from bench.client import Client
from bench.put_figures import MESSAGE_BYTES, PARTITIONS, UNLIMITED
from bench.server import ServerProcess
from opentalos.wire._generated.message import MESSAGE_SERVICE

OUT = Path(__file__).parent / "out" / "soak.json"
SECONDS_DEFAULT = 600
SECONDS_MAX = 840  # requests are signed once; signatures are valid for 900 s
RATE = 5_000
CONNECTIONS = 64
SAMPLE_S = 10.0
STALL_GOAL_MS = 20.0
RETENTION = {"retention.bytes": str(1 << 30)}  # limits disk usage


def follow(port: int, topic_name: str, stop: threading.Event, read: list[int]) -> None:
    """Read partition 0 as it grows."""
    client = Client(port)
    topic, offset = client.describe_topic(topic_name), 0
    while not stop.is_set():
        request = topic.get(0, offset, bytes_max=2 << 20)
        for block in client.call(MESSAGE_SERVICE, "getMessage", request).messageBlocks:
            offset = block.startMessageOffset + block.messageNumber
        read[0] = offset
        time.sleep(0.05)


def stalls_ms(path: Path) -> list[float]:
    """The longest stall of each second, without the first two seconds of ramp-up."""
    lines = path.read_text().splitlines()[2:]
    return [json.loads(line)["stall_s"] * 1e3 for line in lines]


def sample(server: ServerProcess, process: subprocess.Popen[str], begin: float) -> list[float]:
    """Resident MiB every few seconds while the load runs."""
    found: list[float] = []
    while process.poll() is None:
        found.append(server.rss_bytes() / 2**20)
        print(f"{time.monotonic() - begin:6.0f} s  {found[-1]:7.1f} MiB", file=sys.stderr)
        try:
            process.wait(SAMPLE_S)
        except subprocess.TimeoutExpired:
            continue
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """The result of a soak run."""

    seconds: int
    load: dict[str, float]  # the report of openloop.c
    server_cpu_s: float
    rss_mib: list[float]
    read_offset: int
    longest_stall_ms: float
    seconds_above_goal: int  # seconds with a stall above the goal
    collections: list[int]  # of garbage, by generation
    longest_collection_ms: float


def run(seconds: int, work: Path) -> Soak:
    """Run the load; ``work`` is an empty directory on the disk under test."""
    stalls, read, stop = work / "stalls.jsonl", [0], threading.Event()
    launcher = [sys.executable, "-m", "bench.serve_watched", "--stalls", str(stalls)]
    binary = load.build_open_loop(work)
    with ServerProcess(work / "data", settings=UNLIMITED, launcher=launcher) as server:
        topic = Client(server.port).create_topic("soak", PARTITIONS, **RETENTION)
        puts = topic.put_requests(block_bytes=MESSAGE_BYTES)
        requests = load.write_request_file(work / "puts.bin", puts)
        reader = threading.Thread(
            target=follow, args=(server.port, "soak", stop, read), daemon=True
        )
        reader.start()
        command = [str(binary), "127.0.0.1", str(server.port), str(CONNECTIONS), str(RATE)]
        process = subprocess.Popen(
            [*command, str(seconds), str(requests)], stdout=subprocess.PIPE, text=True
        )
        memory = sample(server, process, time.monotonic())
        report = json.loads(process.communicate()[0])
        stop.set()
        reader.join(10)
        cpu_s = server.cpu_s()
    longest = stalls_ms(stalls)
    last = json.loads(stalls.read_text().splitlines()[-1])
    return Soak(
        seconds=seconds,
        load=report,
        server_cpu_s=cpu_s,
        rss_mib=memory,
        read_offset=read[0],
        longest_stall_ms=max(longest, default=0.0),
        seconds_above_goal=sum(stall_ms > STALL_GOAL_MS for stall_ms in longest),
        collections=last["collections"],
        longest_collection_ms=last["longest_collection_ms"],
    )


def main() -> int:
    """Print a summary and write JSON; exit with 1 if requests failed."""
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS_DEFAULT
    if not 1 <= seconds <= SECONDS_MAX:
        print(f"soak: need 1 <= seconds <= {SECONDS_MAX}", file=sys.stderr)
        return 2
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT.parent, prefix="soak-") as work:
        try:
            result = run(seconds, Path(work))
        except load.MissingTool as error:
            print(error, file=sys.stderr)
            return 1
    OUT.write_text(json.dumps(asdict(result), indent=1) + "\n")
    load_report, p99_ms = result.load, result.load["p99_us"] / 1e3
    print(
        f"puts: {load_report['ok']:.0f} ok, {load_report['errors']:.0f} errors, P99 {p99_ms:.1f} ms"
    )
    print(f"longest stall: {result.longest_stall_ms:.1f} ms (goal <= {STALL_GOAL_MS:.0f})")
    counts = ", ".join(map(str, result.collections))
    print(f"collections: {counts}, the longest {result.longest_collection_ms:.1f} ms")
    print(f"written to {OUT}")
    return 1 if load_report["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
