"""Client-side addressing against a client that knows no addresses: bytes on the wire and P95.

Three servers, so such a client meets the right one in a third of all cases; each other request
crosses the wire twice. With heads of the same size that makes 1 against 1 + 2/3: 40 % fewer is the
arithmetic limit. Counted are the bytes that TCP carried, both ways, between clients and servers and
between servers: by the load generator, and by the kernel for each connection between two servers.
"""

import re
import shutil
import statistics
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bench import load
from bench.client import BenchTopic, signed_request
from bench.cluster_plan import ClusterPlan
from bench.cluster_servers import Cluster
from bench.load import LoadResult, MissingTool
from bench.report import Figure, at_least
from opentalos.wire._generated.message import MESSAGE_SERVICE

MESSAGE_BYTES = 1024
PARTITIONS = 24  # of them as many of each server as the one with the fewest has
CONNECTIONS = 48
OPEN_LOOP_SHARE = 0.5  # of the rate with addresses
WARM_UP_S = 3
_SOCKET = re.compile(r"127\.0\.0\.1:(\d+)\s+127\.0\.0\.1:(\d+)")
_COUNT = re.compile(r"bytes_(?:sent|received):(\d+)")


class Mode(NamedTuple):
    """What each server is sent: only what it serves, or everything."""

    name: str
    targets: Mapping[int, Path]


def addressing(plan: ClusterPlan) -> Iterator[Figure]:
    """The same open load in turn with addresses and without; one figure each."""
    fewer_bytes, lower_p95 = [], []
    runs: dict[str, list[tuple[LoadResult, float]]] = {"direct": [], "forward": []}
    with Cluster(plan.work, plan.backends) as cluster:
        topic = cluster.create_topic("addressed", PARTITIONS, durability="flushed")
        modes = _modes(plan, cluster, topic)
        closed = {}
        for mode in modes:
            _run(plan, mode, 0.0, WARM_UP_S)
            closed[mode.name] = _run(plan, mode, 0.0, plan.seconds).requests_per_s
        rate = OPEN_LOOP_SHARE * closed["direct"]
        for _ in range(plan.repeats):
            for mode in modes:
                before = _bytes_between(cluster.ports)
                run = _run(plan, mode, rate, plan.seconds)
                after = _bytes_between(cluster.ports)
                forwarded = sum(count - before.get(key, 0) for key, count in after.items())
                wire = (run.bytes_out + run.bytes_in + forwarded) / run.requests
                runs[mode.name].append((run, wire))
            (direct, direct_wire), (forward, forward_wire) = runs["direct"][-1], runs["forward"][-1]
            fewer_bytes.append(100 * (1 - direct_wire / forward_wire))
            lower_p95.append(100 * (1 - direct.p95_us / forward.p95_us))
    wire_of = {name: statistics.median(wire for _, wire in seen) for name, seen in runs.items()}
    p95_of = {
        name: statistics.median(run.p95_us for run, _ in seen) / 1e3 for name, seen in runs.items()
    }
    yield at_least(
        "bytes on the wire with addresses, fewer by",
        "%",
        38.0,
        fewer_bytes,
        bytes_per_put=wire_of["direct"],
        forward_mode=wire_of["forward"],
    )
    yield at_least(
        f"P95 at {rate:,.0f} puts/s with addresses, lower by",
        "%",
        50.0,
        lower_p95,
        p95_ms=p95_of["direct"],
        forward_mode_ms=p95_of["forward"],
    )
    yield Figure(
        name="puts/s, closed loop: with addresses against without",
        unit="x",
        values=[closed["direct"] / closed["forward"]],
        notes={"puts_per_s": closed["direct"], "forward_mode": closed["forward"]},
    )


def _modes(plan: ClusterPlan, cluster: Cluster, topic: BenchTopic) -> list[Mode]:
    """Both send the same requests, as many to each server and to each partition."""
    owned: dict[str, list[int]] = {name: [] for name in cluster.names}
    for partition, owner in sorted(cluster.owners(topic).items()):
        owned[owner].append(partition)
    share = min(len(partitions) for partitions in owned.values())
    if not share:
        raise RuntimeError(f"a server has no partition: {owned}")
    everything = [number for partitions in owned.values() for number in partitions[:share]]
    direct, forward = {}, {}
    for turn, (name, partitions) in enumerate(owned.items()):
        port = cluster.servers[name].port
        direct[port] = _requests(plan, topic, f"direct-{name}", partitions[:share] * 3)
        # Servers begin at different partitions, so that not all ask the same one at once.
        order = everything[turn * share :] + everything[: turn * share]
        forward[port] = _requests(plan, topic, f"forward-{name}", order)
    return [Mode("direct", direct), Mode("forward", forward)]


def _requests(plan: ClusterPlan, topic: BenchTopic, name: str, partitions: list[int]) -> Path:
    bodies = (topic.put_body(number, MESSAGE_BYTES) for number in partitions)
    requests = [signed_request(MESSAGE_SERVICE.path, body) for body in bodies]
    return load.write_request_file(plan.work / f"{name}.bin", requests)


def _run(plan: ClusterPlan, mode: Mode, rate: float, seconds: float) -> LoadResult:
    run = load.replay(
        plan.binary, mode.targets, connections=CONNECTIONS, rate=rate, seconds=seconds
    )
    if run.errors:
        raise RuntimeError(f"{mode.name}: {run.errors} of {run.requests + run.errors} puts failed")
    return run


def _bytes_between(ports: list[int]) -> dict[tuple[str, str], int]:
    """Bytes both ways of each connection to one of these ports, as its caller counts them.

    Read right before and after a run, while the load generator has no connection: what is there
    belongs to servers, which keep theirs for a minute.
    """
    tool = shutil.which("ss")
    if tool is None:
        raise MissingTool("ss is not installed: apt-get install iproute2")
    wanted = " or ".join(f"dport = :{port}" for port in ports)
    command = [tool, "-HtinO", "state", "established", f"( {wanted} )"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    found = {}
    for line in done.stdout.splitlines():
        if match := _SOCKET.search(line):
            found[match[1], match[2]] = sum(map(int, _COUNT.findall(line)))
    return found
