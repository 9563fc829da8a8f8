"""Workers of one group in processes that come, go and are killed, over a server that is killed, all
under load and judged by the history checker."""

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from tests.e2e.sdk.conftest import config_of
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import elapse_async, ended, eventually_async

from opentalos.sdk import aio
from opentalos.sdk.errors import OutcomeUnknown, TalosError
from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.history import History, Recorder

KILLS = int(os.environ.get("OPENTALOS_KILLS", "2"))

TOPIC, GROUP = "followed", "followers"
WRITERS = "writers.jsonl"
PARTITIONS = 6
LEASE_S = 4.0
SETTINGS = {
    "renew_interval_s": 0.5, "check_workers_interval_s": 1.0, "lease_s": LEASE_S,
    "commit_interval_s": 0.3, "revoke_wait_s": 1.0, "fetch_records": 50,
}  # fmt: skip
PROGRAM = Path(__file__).parent / "programs" / "group_worker.py"
COMMITS = 7  # of the group, at least, between two disturbances
DISTURBANCES = 3  # of each kind, as often as OPENTALOS_KILLS says


class Worker:
    """One process of the group and its part of the history."""

    def __init__(self, server: ServerProcess, folder: Path, name: str) -> None:
        self.path, self._stderr = folder / f"{name}.jsonl", folder / f"{name}.stderr"
        arguments = {
            "url": server.url, "key": f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}", "topic": TOPIC,
            "group": GROUP, "name": name, "history": str(self.path), "settings": SETTINGS,
        }  # fmt: skip
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), json.dumps(arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()

    def leave(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert ended(self.process, "the worker leaves") == 0, self._stderr.read_text()


async def write(client: aio.Client, recorder: Recorder, partition: int, stop: asyncio.Event) -> int:
    """Put until stopped; how many messages there may be."""
    producer, count = aio.SimpleProducer(client, TOPIC, partition), 0
    while not stop.is_set():
        ids = [f"{partition}-{count + number}" for number in range(3)]
        count += 3
        args = {"topic": TOPIC, "partition": partition, "ids": ids}
        put = recorder.invoke(f"writer-{partition}", "put", **args)
        try:
            reply = await producer.put([item.encode() for item in ids])
        except OutcomeUnknown as error:
            recorder.unknown(put, str(error))
        except TalosError as error:
            recorder.fail(put, str(error))
        else:
            recorder.ok(put, offset=reply.base_offset)
        await elapse_async("the pace of the load", 0.03)
    return count


async def read_whole(client: aio.Client, recorder: Recorder) -> dict[int, int]:
    """The last word on what the partitions hold; the next offset of each."""
    consumer = aio.SimpleConsumer(client, TOPIC)
    ranges = await consumer.offsets()
    for partition, held in ranges.items():
        args = {"topic": TOPIC, "partition": partition, "final": True, "healed": True}
        read = recorder.invoke("final", "read", offset=0, **args)
        blocks: list[tuple[int, list[str]]] = []
        while len(blocks) < held.next:
            records = await consumer.fetch(partition, len(blocks))
            blocks += [(record.offset, [record.data.decode()]) for record in records]
        recorder.ok(read, blocks=blocks, start=0, next=held.next)
    return {partition: held.next for partition, held in ranges.items()}


async def caught_up(client: aio.Client, ends: dict[int, int]) -> None:
    """The group has committed everything."""
    admin, done = aio.TalosAdmin(client), dict[int, int]()

    async def committed() -> bool:
        lags = await admin.groups.lag(TOPIC, GROUP)
        done.update({lag.partition: lag.checkpoint + 1 for lag in lags})
        return done == ends

    await eventually_async("the group commits all", committed, state=lambda: f"{done} of {ends}")


def commits(folder: Path) -> int:
    """How many the workers have made so far."""
    of_workers = (path for path in folder.glob("*.jsonl") if path.name != WRITERS)
    return sum(commit.ok for commit in History.load(of_workers).of("commit"))


async def under_load(folder: Path, source: random.Random) -> None:
    """Until the group has committed something, and then until any moment."""
    wanted = commits(folder) + COMMITS
    await eventually_async("the group commits", lambda: commits(folder) >= wanted)
    await elapse_async("a disturbance may come at any moment", source.uniform(0.5, 1.5))


async def disturb(server: ServerProcess, folder: Path, workers: list[Worker]) -> None:
    """Everything that may happen to a group, some times over."""
    source = random.Random(2)
    for number in range(KILLS):
        await under_load(folder, source)
        server.kill()
        await asyncio.to_thread(server.start)
        await under_load(folder, source)
        workers.pop(0).kill()
        workers.append(Worker(server, folder, f"after-kill-{number}"))
        await under_load(folder, source)
        leaving = workers.pop(0)
        await asyncio.to_thread(leaving.leave)
        workers.append(Worker(server, folder, f"after-leave-{number}"))


def delivered(history: History) -> dict[int, set[int]]:
    """Offsets handed to any worker, by partition."""
    found: dict[int, set[int]] = {partition: set() for partition in range(PARTITIONS)}
    for poll in history.of("poll"):
        found[poll.args["partition"]].update(offset for offset, _ in poll.result["blocks"])
    return found


async def test_kills_and_rebalances_lose_nothing_and_move_no_checkpoint_wrongly(
    tmp_path: Path,
) -> None:
    server = ServerProcess(tmp_path / "server", f"[group]\nlease_s = {LEASE_S}\n").start()
    workers: list[Worker] = []
    try:
        with (tmp_path / WRITERS).open("w") as sink:
            recorder = Recorder(time.monotonic, sink)
            recorder.note("settings", lease_s=LEASE_S)
            async with aio.Client(config_of(server.url)) as client:
                await aio.TalosAdmin(client).topics.create(TOPIC, partitions=PARTITIONS)
                stop = asyncio.Event()
                writing = [
                    asyncio.create_task(write(client, recorder, partition, stop))
                    for partition in range(PARTITIONS)
                ]
                workers = [Worker(server, tmp_path, f"first-{n}") for n in range(3)]
                await disturb(server, tmp_path, workers)
                stop.set()
                await asyncio.gather(*writing)
                ends = await read_whole(client, recorder)
                await caught_up(client, ends)
                for worker in workers:
                    await asyncio.to_thread(worker.leave)
    finally:
        for worker in workers:
            worker.kill()
        server.stop()
    judge(tmp_path, ends)


def judge(folder: Path, ends: dict[int, int]) -> None:
    history = History.load(sorted(folder.glob("*.jsonl")))
    assert sum(commit.ok for commit in history.of("commit")) >= COMMITS * DISTURBANCES * KILLS
    assert delivered(history) == {p: set(range(end)) for p, end in ends.items()}
    assert [str(anomaly) for anomaly in check(history)] == []
