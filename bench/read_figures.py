"""Benchmarks of the read path: tail fetches from memory, cold fetches from disk."""

from collections.abc import Iterator
from pathlib import Path

from bench import disk, load
from bench.client import BenchTopic, Client
from bench.plan import Plan
from bench.put_figures import UNLIMITED
from bench.report import Figure, at_least
from bench.server import ServerProcess

BLOCK_BYTES = 1 << 20
TAIL_BLOCKS = 32  # fits in the tail cache
FETCH_BYTES = 8 << 20


def _fill(server: ServerProcess, plan: Plan, topic: BenchTopic, blocks: int) -> int:
    """Store ``blocks`` 1 MiB blocks of 1,024 messages in partition 0; return the next offset."""
    client = Client(server.port)
    body = topic.put_body(0, BLOCK_BYTES, 1024)
    for _ in range(blocks):
        client.raw_put(body)
    return topic.stored_messages(client)


def tail_fetch(plan: Plan) -> Iterator[Figure]:
    """8 MiB replies from the tail cache, four connections."""
    rates, notes = [], {}
    with ServerProcess(plan.folder("tail"), settings=UNLIMITED) as server:
        topic = Client(server.port).create_topic("reads", 1)
        _fill(server, plan, topic, TAIL_BLOCKS)
        offsets = range(0, (TAIL_BLOCKS - FETCH_BYTES // BLOCK_BYTES) * 1024, 1024)
        requests = load.write_request_file(
            plan.work / "tail.bin",
            [topic.get_request(0, offset, bytes_max=FETCH_BYTES) for offset in offsets],
        )
        for _ in range(plan.repeats):
            cpu = server.cpu_s()
            run = load.closed_loop(server.url, requests, connections=4, seconds=plan.seconds)
            rates.append(run.requests_per_s * FETCH_BYTES / 1e6)
            notes = {
                "errors": run.errors,
                "server_cpu_s": server.cpu_s() - cpu,
                "client_cpu_s": run.client_cpu_s,
            }
    yield at_least("tail fetch from cache", "MB/s", 500.0, rates, **notes)


def cold_fetch(plan: Plan) -> Iterator[Figure]:
    """A full read of a partition with a cold page cache, compared with cat of its files."""
    shares, notes = [], {}
    data = plan.folder("cold")
    blocks = plan.cold_blocks
    with ServerProcess(data, settings=UNLIMITED) as server:
        topic = Client(server.port).create_topic("reads", 1)
        end = _fill(server, plan, topic, blocks)
    for _ in range(plan.repeats):
        files = sorted(Path(data / "log").rglob("*.log"))
        cat = disk.cat_bytes_per_s(files)
        disk.drop_from_page_cache(files)
        with ServerProcess(data, settings=UNLIMITED) as server:
            rate = Client(server.port).read_through(topic, 0, end, FETCH_BYTES)
        shares.append(rate / cat * 100)
        notes = {"MB_per_s": rate / 1e6, "cat_MB_per_s": cat / 1e6}
    yield at_least("cold fetch against cat", "%", 50.0, shares, **notes)
