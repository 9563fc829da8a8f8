"""Benchmarks of many partitions: simultaneous failover, and idle writers."""

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from queue import Empty, SimpleQueue

from bench import load
from bench.client import BenchTopic, Client
from bench.cluster_plan import ClusterPlan
from bench.cluster_servers import Cluster, Settings, wait_until
from bench.report import Figure, at_most
from opentalos.wire._generated.message import MESSAGE_SERVICE
from opentalos.wire.thrift.error import ApplicationError

PARTITIONS_OF_TOPIC = 250
MESSAGE_BYTES = 1024
PUT_CONNECTIONS = 32
READERS = 32  # a read of a partition that still opens waits for it
RETRY_S = 0.02
TIMEOUT_S = 120.0
GOAL_S = 3.0
ROUND_SHARE = 4  # a round takes a minute, or several on a busy machine
# HDFS sets a whole block aside for each open file, on one disk here for three DataNodes.
SMALL_BLOCKS: Settings = {"log": {"segment_bytes_max": 8 << 20}, "hdfs": {"block_bytes": 32 << 20}}
NEVER_S = 3600.0  # the second server gets nothing as long as the first one lives


def small_blocks(*, journal: bool) -> Settings:
    """Settings of servers over one small HDFS, with a journal or without one."""
    return {**SMALL_BLOCKS, "log": {**SMALL_BLOCKS["log"], "journal": "on" if journal else "off"}}


def many_taken_over(plan: ClusterPlan) -> Iterator[Figure]:
    """Kill a server with all partitions; time until the other one answers a read of each.

    Without a journal, then with one, which its successor fences and reads once.
    """
    for journal in (False, True):
        yield from _taken_over(plan, journal=journal)


def _taken_over(plan: ClusterPlan, *, journal: bool) -> Iterator[Figure]:
    from_publication, from_kill = [], []
    for _ in range(max(1, plan.repeats // ROUND_SHARE)):
        settings = {**small_blocks(journal=journal), "cluster": {"stable_after_s": NEVER_S}}
        cluster = Cluster(plan.work, plan.backends, ["s1", "s2"], settings)
        try:
            cluster.start("s1")
            topics = [
                cluster.create_topic(f"t{start}", min(PARTITIONS_OF_TOPIC, plan.partitions - start))
                for start in range(0, plan.partitions, PARTITIONS_OF_TOPIC)
            ]
            for topic in topics:
                fill(plan, cluster, topic)
            cluster.start("s2")
            if cluster.owners(topics[0], "s2").keys() != set(range(topics[0].partitions)):
                raise RuntimeError("the first server does not have every partition")
            began_s = time.time()
            cluster.servers["s1"].kill()
            last_s = _read_all(cluster.servers["s2"].port, topics)
            moves = cluster.status()["recent"]
            if not moves:
                raise RuntimeError("the new owner knows of no moves")
            from_publication.append(last_s - min(move["at_ms"] for move in moves) / 1000)
            from_kill.append(last_s - began_s)
        finally:
            cluster.end()
    name = f"{plan.partitions:,} partitions to a new owner: all serve reads"
    name += ", journal" if journal else ""
    yield at_most(name, "s", GOAL_S, from_publication)
    yield Figure(name="  the same, from the kill -9 of the former one", unit="s", values=from_kill)


def idle_writers(plan: ClusterPlan) -> Iterator[Figure]:
    """Open files by the count of the NameNode: under load, then idle."""
    idle_s = plan.idle_seal_s
    settings = {"log": {"idle_seal_s": float(idle_s), "retention_interval_s": 1.0}}
    count = min(PARTITIONS_OF_TOPIC, plan.partitions) // 10
    with Cluster(plan.work, plan.backends, ["s1"], settings) as cluster:
        topic = cluster.create_topic("idle", count)
        fill(plan, cluster, topic)
        busy = plan.backends.files_open_for_write(cluster.name)
        if not busy:
            raise RuntimeError("the NameNode knows of no writer right after puts")
        began_s = time.monotonic()
        left = busy
        while left and time.monotonic() - began_s < idle_s + 30:
            time.sleep(0.5)
            left = plan.backends.files_open_for_write(cluster.name)
        took_s = time.monotonic() - began_s
    yield at_most(
        f"HDFS writers of {count} idle partitions",
        "files",
        0.0,
        [left],
        right_after_puts=busy,
        seconds_idle=took_s,
        idle_seal_s=idle_s,
    )


def fill(plan: ClusterPlan, cluster: Cluster, topic: BenchTopic) -> None:
    """Put at least one message to every partition."""
    turns = topic.put_requests(block_bytes=MESSAGE_BYTES, turns=topic.partitions)
    requests = load.write_request_file(plan.work / "fill.bin", turns)
    client = Client(cluster.ports[0])

    def full() -> bool:
        load.replay(
            plan.binary,
            {cluster.ports[0]: requests},
            connections=PUT_CONNECTIONS,
            rate=topic.partitions,  # within a second, or as long as it takes: all of them
            seconds=1.0,
        )
        # The last ones are being opened, or it was one too many to ask within a deadline.
        with contextlib.suppress(RuntimeError, ApplicationError):
            return all(count > 0 for count in topic.stored_by_partition(client))
        return False

    wait_until(full, f"every partition of {topic.name} has a message", TIMEOUT_S)


def _read_all(port: int, topics: Sequence[BenchTopic]) -> float:
    """Read the first message of every partition; wall-clock time of the last reply."""
    waiting: SimpleQueue[tuple[BenchTopic, int]] = SimpleQueue()
    for topic in topics:
        for number in range(topic.partitions):
            waiting.put((topic, number))
    deadline_s = time.monotonic() + TIMEOUT_S
    last_s, missing = [0.0], []

    def read() -> None:
        client = Client(port)
        while True:
            try:
                topic, number = waiting.get_nowait()
            except Empty:
                return
            request = topic.get(number, 0, bytes_max=1 << 20)
            while True:
                try:
                    if client.call(MESSAGE_SERVICE, "getMessage", request).messageBlocks:
                        last_s[0] = max(last_s[0], time.time())
                        break
                except (RuntimeError, OSError) as error:
                    if time.monotonic() > deadline_s:
                        missing.append(f"{topic.name}/{number}: {error}")
                        return
                time.sleep(RETRY_S)

    readers = [threading.Thread(target=read) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    if missing:
        raise RuntimeError(f"not read after {TIMEOUT_S:.0f} s: {missing[:3]}")
    return last_s[0]
