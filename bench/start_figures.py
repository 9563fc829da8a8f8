"""Benchmarks of start-up, memory and recovery."""

import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import load
from bench.builds import ROOT, Build, fastest_package
from bench.client import Client
from bench.plan import Plan
from bench.put_figures import UNLIMITED
from bench.report import Figure, at_most
from bench.server import ServerProcess

MEBI = 1 << 20
EMPTY_TOPICS, EMPTY_PARTITIONS = 40, 250
CONNECTIONS = 16
IDLE_S, IDLE_WAIT_S = 2.0, 120.0
OPEN_OF_SERVICE = 16  # segments of __usage and __metrics
RECOVERY_MESSAGES = 1_000_000
EMBEDDED = """
import time
began_s = time.perf_counter()
from opentalos.testing import EmbeddedServer
with EmbeddedServer():
    print(time.perf_counter() - began_s, time.process_time())
"""
RECOVERY_BYTES = 32  # of one message; its header is larger


def start_and_idle(plan: Plan) -> Iterator[Figure]:
    """Starts on an empty directory with byte code and without, and the memory of an idle server."""
    build = Build("start", fastest_package(ROOT))
    warm, cold, memory = [], [], []
    with build.server(plan.folder("idle")):  # leaves byte code behind
        pass
    for _ in range(plan.repeats):
        with build.server(plan.folder("idle")) as server:
            warm.append(server.ready_s)
            time.sleep(2)
            memory.append(server.rss_bytes() / MEBI)
        nothing = str(plan.folder("byte-code"))
        with build.server(plan.folder("idle"), PYTHONPYCACHEPREFIX=nothing) as server:
            cold.append(server.ready_s)
    yield at_most("start to ready", "s", 0.5, warm)
    yield at_most("start to ready, nothing compiled to byte code", "s", 1.0, cold)
    yield at_most("idle RSS", "MiB", 60e6 / MEBI, memory)


def embedded(plan: Plan) -> Iterator[Figure]:
    """The server of the pytest plugin, in a fresh process: its imports and its start."""
    times, busy = [], []
    for _ in range(plan.repeats):
        done = subprocess.run(
            [sys.executable, "-c", EMBEDDED], capture_output=True, text=True, check=True
        )
        took, cpu = map(float, done.stdout.split())
        times.append(took)
        busy.append(cpu)
    yield at_most("embedded server to ready", "s", 1.0, times, cpu_s=min(busy))


def empty_partitions(plan: Plan) -> Iterator[Figure]:
    """Restart with 10,000 empty partitions."""
    data = plan.folder("empty")
    with ServerProcess(data) as server:
        client = Client(server.port)
        for number in range(EMPTY_TOPICS):
            client.create_topic(f"empty{number}", EMPTY_PARTITIONS)
    times, memory = [], []
    for _ in range(plan.repeats):
        with ServerProcess(data) as server:
            times.append(server.ready_s)
            client = Client(server.port)
            for number in range(EMPTY_TOPICS):  # every partition is asked for its offsets
                topic = client.describe_topic(f"empty{number}")
                topic.stored_messages(client)
            memory.append(server.rss_bytes() / MEBI)
    yield at_most("restart with 10,000 empty partitions", "s", 3.0, times)
    yield at_most("RSS with 10,000 empty partitions", "MiB", 300e6 / MEBI, memory)


def used_partitions(plan: Plan) -> Iterator[Figure]:
    """10,000 partitions that all had traffic: kill -9, restart, a put to each; then idle."""
    data, topics = plan.folder("used"), EMPTY_TOPICS // plan.recovery_share
    count = topics * EMPTY_PARTITIONS
    settings = {**UNLIMITED, "log": {"idle_seal_s": IDLE_S, "retention_interval_s": 1.0}}
    with ServerProcess(data, settings=UNLIMITED) as server:
        client = Client(server.port)
        for number in range(topics):
            client.create_topic(f"used{number}", EMPTY_PARTITIONS)
        _put_everywhere(server.port, topics)
        server.kill()
    with ServerProcess(data, settings=UNLIMITED) as server:
        ready_s, at_ready = server.ready_s, server.rss_bytes()
        begin = time.perf_counter()
        _put_everywhere(server.port, topics)
        served_s, served = time.perf_counter() - begin, server.rss_bytes()
        server.kill()
    with ServerProcess(data, settings=settings) as server:
        _put_everywhere(server.port, topics)
        _wait_until_idle(data)
    with ServerProcess(data, settings=UNLIMITED) as server:  # every partition is closed
        before, client = server.rss_bytes(), Client(server.port)
        for number in range(topics):
            client.describe_topic(f"used{number}").stored_messages(client)
        idle = server.rss_bytes()
    notes = {"partitions": float(count)}
    yield at_most("restart with 10,000 used partitions", "s", 2.0, [ready_s], **notes)
    yield at_most("until all were served", "s", 60.0, [served_s], **notes)
    yield at_most("memory per idle partition, closed", "B", 4_096, [(idle - before) / count])
    yield at_most("memory per partition, open", "B", 8_192, [(served - at_ready) / count])


def _put_everywhere(port: int, topics: int) -> None:
    """One message to each partition, over a few connections at once."""

    def put(number: int) -> None:
        client = Client(port)
        topic = client.describe_topic(f"used{number}")
        for partition in range(EMPTY_PARTITIONS):
            client.raw_put(topic.put_body(partition, 100))

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        list(pool.map(put, range(topics)))


def _wait_until_idle(data: Path) -> None:
    """Until the logs are sealed: a sealed segment has a side index. The service's own stay open."""
    until_s = time.perf_counter() + IDLE_WAIT_S
    while time.perf_counter() < until_s:
        time.sleep(1.0)
        names = [path.suffix for path in (data / "log").rglob("*")]
        if names.count(".log") - names.count(".idx") <= OPEN_OF_SERVICE:
            return
    raise RuntimeError(f"segments are still open after {IDLE_WAIT_S} s")


def recovery(plan: Plan) -> Iterator[Figure]:
    """kill -9, then the first read of a segment of 1,000,000 one-message blocks."""
    data = plan.folder("recovery")
    wanted = RECOVERY_MESSAGES // plan.recovery_share
    settings = {**UNLIMITED, "log": {"segment_bytes_max": 1 << 30}}
    with ServerProcess(data, settings=settings) as server:
        client = Client(server.port)
        topic = client.create_topic("recover", 1, durability="flushed")
        requests = load.write_request_file(
            plan.work / "recover.bin", topic.put_requests(block_bytes=RECOVERY_BYTES)
        )
        while (stored := topic.stored_messages(client)) < wanted:
            load.closed_loop(server.url, requests, connections=64, seconds=5)
        server.kill()
    with ServerProcess(data, settings=settings) as server:
        begin = time.perf_counter()
        found = topic.stored_messages(Client(server.port))
        took = time.perf_counter() - begin
    if found < stored:
        raise RuntimeError(f"{stored} messages were stored, {found} recovered")
    notes = {"messages": float(found), "measured_s": took}
    yield at_most("recovery per 1,000,000 messages", "s", 2.0, [took / found * 1e6], **notes)
