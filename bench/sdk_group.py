"""Benchmark of a group of our SDK that grows from one worker to two."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.client import Client
from bench.report import Figure, at_most
from bench.server import KEY_ID, SECRET, ServerProcess
from opentalos.sdk import ClientConfig
from opentalos.sdk.aio import SimpleProducer
from opentalos.sdk.core.consumer.settings import ConsumerSettings

ROOT: Final = Path(__file__).resolve().parent.parent
TOPIC, GROUP = "shared", "workers"
PARTITIONS: Final = 100
PUT_EVERY_S: Final = 0.2  # to each partition
ALONE_S: Final = 15.0  # the first worker has all partitions; its latencies are the baseline
STOP_TIMEOUT_S: Final = 60.0


class Worker:
    """One process of ``sdk_group_worker``."""

    def __init__(self, url: str) -> None:
        arguments = {
            "url": url,
            "key_id": KEY_ID,
            "secret": SECRET,
            "topic": TOPIC,
            "group": GROUP,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.sdk_group_worker", json.dumps(arguments)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.begin_s = float(json.loads(self._process.stdout.readline())["begin_s"])

    def stop(self) -> dict[str, dict[str, Any]]:
        """Stop the worker; return its report."""
        out, _ = self._process.communicate("", timeout=STOP_TIMEOUT_S)
        found: dict[str, dict[str, Any]] = json.loads(out.splitlines()[-1])
        return found

    def kill(self) -> None:
        """Kill the worker if it is still running."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(timeout=STOP_TIMEOUT_S)


def grow(server: ServerProcess) -> Iterator[Figure]:
    """A second worker joins one that has 100 partitions: how long until each has its half, and how
    long messages waited in partitions that stayed where they were."""
    interval_s = ConsumerSettings().check_workers_interval_s
    Client(server.port).create_topic(TOPIC, PARTITIONS, durability="flushed")
    first, second = asyncio.run(_run(server.url, interval_s))
    joined_s = second["begin_s"]["worker"]
    joined_s = second["begin_s"]["worker"]
    moved = set(second["taken"])
    settled_s = max(second["taken"].values()) - joined_s
    before: list[float] = []
    after: list[float] = []
    for partition, arrivals in first["arrivals"].items():
        if partition in moved:
            continue
        for at_s, wait_s in arrivals:
            if at_s >= joined_s:
                after.append(wait_s)
            elif at_s >= joined_s - ALONE_S / 2:  # the first one is settled, too
                before.append(wait_s)
    notes = {"moved": float(len(moved)), "kept": float(PARTITIONS - len(moved))}
    yield at_most("a second worker has its half", "s", interval_s, [settled_s], **notes)
    yield Figure(
        name="longest wait of a message in a partition that stayed",
        unit="s",
        values=[max(after)],
        notes={
            "longest before": max(before),
            "P99": _p99(after),
            "P99 before": _p99(before),
            "messages": float(len(after)),
        },
    )


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


async def _run(url: str, interval_s: float) -> tuple[dict[str, Any], dict[str, Any]]:
    config = ClientConfig(endpoints=(url,), key_id=KEY_ID, secret=SECRET)
    workers: list[Worker] = []
    async with SimpleProducer(config, TOPIC) as producer:
        putting = asyncio.create_task(_put(producer))
        try:
            workers.append(await asyncio.to_thread(Worker, url))
            await asyncio.sleep(ALONE_S)
            workers.append(await asyncio.to_thread(Worker, url))
            await asyncio.sleep(2 * interval_s)
            first, second = [await asyncio.to_thread(worker.stop) for worker in workers]
            second["begin_s"] = {"worker": workers[1].begin_s}
            return first, second
        finally:
            putting.cancel()
            await asyncio.gather(putting, return_exceptions=True)
            for worker in workers:
                worker.kill()


async def _put(producer: SimpleProducer) -> None:
    """Put one message to each partition repeatedly."""
    while True:
        begin_s = time.monotonic()
        await asyncio.gather(
            *(producer.put([b"tick"], partition=partition) for partition in range(PARTITIONS))
        )
        await asyncio.sleep(max(0.0, begin_s + PUT_EVERY_S - time.monotonic()))
