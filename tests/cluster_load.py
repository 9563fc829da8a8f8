"""Load of the official SDK on a cluster, and what the history checker says of it."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.cluster_processes import ClusterProcesses
from tests.compat.conftest import Sdk, sdk_environment
from tests.raw_client import RawClient, RawTopic, TalosError, idl
from tests.server_process import ServerProcess
from tests.waiting import ended, eventually, limit_s

from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.history import History, Recorder

PARTITIONS = 3
TOPICS_MAX = 20  # until one is found whose partitions several servers have
PAUSE_S = 0.04  # between two puts of one writer: two cores carry servers, backends and clients
PINNED = {"galaxy.talos.client.is.auto.location": False}  # always asks the server of its URL
UNKNOWN_CODE = 2


class Program:
    """One load program in its own process, with the history it writes."""

    def __init__(
        self, command: list[str], path: Path, environment: dict[str, str] | None = None
    ) -> None:
        self.path = path
        self.stdout = path.with_suffix(".stdout").open("w+")
        self.stderr = path.with_suffix(".stderr").open("w+")
        self.process = subprocess.Popen(
            command,
            env=environment or sdk_environment(),
            stdin=subprocess.PIPE,
            stdout=self.stdout,
            stderr=self.stderr,
            text=True,
        )

    def wait_started(self) -> None:
        """Wait for its first line."""
        path = Path(self.stdout.name)
        eventually(
            f"{path.stem} starts",
            lambda: path.stat().st_size > 0 or self.process.poll() is not None,
        )
        assert path.stat().st_size > 0, self._complaint()

    def said(self, *events: str) -> int:
        """How often it reported these events."""
        lines = Path(self.stdout.name).read_text().splitlines(keepends=True)
        whole = [json.loads(line) for line in lines if line.endswith("\n")]
        return sum(line["event"] in events for line in whole)

    def check_alive(self) -> None:
        """Fail if it ended by itself."""
        assert self.process.poll() is None, self._complaint()

    def stop(self) -> None:
        """Close its stdin, which it takes as the end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert ended(self.process, f"{self.path.stem} ends") == 0, self._complaint()

    def close(self) -> None:
        """Kill it if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()

    def _complaint(self) -> str:
        self.stderr.seek(0)
        return f"{self.path.stem}: {self.stderr.read()[-2000:]}"


class Traffic:
    """Writers, readers and group workers on one fresh topic, until ``stop``; then ``judge``."""

    def __init__(self, cluster: ClusterProcesses, folder: Path, durability: str) -> None:
        self.cluster, self.folder = cluster, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.programs: list[Program] = []
        self.consumers: list[Program] = []  # the SDK cannot stop them reliably: they are killed
        self.zombies: list[threading.Thread] = []
        self.topic, self.resource = self._shared_topic(durability)
        self.notes = (folder / "notes.jsonl").open("w")
        self.recorder = Recorder(time.monotonic, self.notes)
        self.recorder.note("settings", lease_s=cluster.lease_s)

    def _sdk(self, number: int) -> Sdk:
        running = self.cluster.running
        return Sdk(self.cluster.servers[running[number % len(running)]])

    def _shared_topic(self, durability: str) -> tuple[str, str]:
        """Name and resource of a new topic, of which no server has all partitions."""
        for _ in range(TOPICS_MAX):
            topic = f"t{os.urandom(4).hex()}"
            resource = self._sdk(0).topic(topic, partitions=PARTITIONS, durability=durability)
            if len({*self.cluster.owners(resource).values()}) > 1:
                return topic, resource
        raise AssertionError(f"one server has all partitions of each of {TOPICS_MAX} topics")

    def start(self) -> None:
        """Start every program; each server is the first address of some of them."""
        for partition in range(PARTITIONS):
            self._add(partition, "load_writer", f"direct-{partition}", partition=partition)
            self._add(partition + 1, "load_reader", f"reader-{partition}", partition=partition)
            # At two servers: whichever one is away, somebody still writes to every partition.
            for server in (partition, partition + 1):
                name = f"pinned-{partition}-{server}"
                self._add(server, "load_writer", name, partition=partition, config=PINNED)
        for worker in range(2):
            more = {"group": "g", "partitions": PARTITIONS, "first": worker}
            self._add(worker, "load_group", f"worker-{worker}", **more)
        for program in self.programs:
            program.wait_started()
        self.wait_progress()

    def add_pinned(self, server: ServerProcess, name: str, partition: int) -> None:
        """One more writer, which always asks this server."""
        self._run(Sdk(server), "load_writer", name, partition=partition, config=PINNED)
        self.programs[-1].wait_started()

    def add_consumer(self, server: int, name: str, group: str) -> None:
        """A TalosConsumer that keeps what it has; it says when it takes and gives up."""
        command = self._sdk(server).command(
            "talos_consumer", topic=self.topic, group=group, worker=name
        )
        self.consumers.append(Program(command, self.folder / f"{name}.jsonl"))
        self.consumers[-1].wait_started()

    def takings(self) -> int:
        """How often these consumers took partitions or gave them up."""
        return sum(consumer.said("taken", "released") for consumer in self.consumers)

    def _add(self, server: int, program: str, name: str, **more: Any) -> None:
        self._run(self._sdk(server), program, name, **more)

    def _run(self, sdk: Sdk, program: str, name: str, **more: Any) -> None:
        path = self.folder / f"{name}.jsonl"
        command = sdk.command(
            program, topic=self.topic, prefix=name, history=str(path), pause_s=PAUSE_S, **more
        )
        self.programs.append(Program(command, path))

    def history(self) -> History:
        """Everything so far."""
        return History.load(sorted(self.folder.glob("*.jsonl")))

    def acknowledged(self) -> dict[int, int]:
        """How many puts of each partition were acknowledged."""
        found = dict.fromkeys(range(PARTITIONS), 0)
        for put in self.history().of("put"):
            found[put.args["partition"]] += put.ok
        return found

    def wait_progress(self) -> None:
        """Wait until every partition has acknowledged something more."""
        before = self.acknowledged()

        def stuck() -> list[int]:
            now = self.acknowledged()
            return [partition for partition, count in before.items() if now[partition] <= count]

        def none_is_stuck() -> bool:
            self._check_alive()
            return not stuck()

        eventually(
            "every partition acknowledges a put",
            none_is_stuck,
            state=lambda: f"partitions {stuck()} acknowledge nothing",
        )

    def wait_commits(self) -> None:
        """Wait until the group has committed something more."""
        before = self._commits()

        def more() -> bool:
            self._check_alive()
            return self._commits() > before

        eventually("commits continue", more)

    def _check_alive(self) -> None:
        """Fail with what a program that ended early has to say, not with what it left undone."""
        for program in self.programs:
            program.check_alive()

    def _commits(self) -> int:
        workers = History.load(sorted(self.folder.glob("worker-*.jsonl")))
        return sum(1 for each in workers.of("commit") if each.ok)

    def owner(self, partition: int = 0) -> str:
        """The server of a partition."""
        return self.cluster.owners(self.resource)[partition]

    def put_at(self, server: str, partition: int) -> None:
        """Send one put to a server that may be paused, and record what it ever answers."""
        port = self.cluster.servers[server].port
        sent = threading.Thread(target=self._put, args=(port, partition), daemon=True)
        sent.start()
        self.zombies.append(sent)

    def _put(self, port: int, partition: int) -> None:
        client = RawClient(port)
        name = idl("topic").TopicTalosResourceName(self.resource)
        one = f"zombie-{os.urandom(4).hex()}"
        put = self.recorder.invoke(one, "put", topic=self.topic, partition=partition, ids=[one])
        try:
            RawTopic(client, self.topic, name).put(one.encode(), partition=partition)
        except TalosError as error:
            ended = self.recorder.unknown if error.code == UNKNOWN_CODE else self.recorder.fail
            ended(put, str(error)[:200])
        except Exception as error:
            self.recorder.unknown(put, repr(error)[:200])
        else:
            self.recorder.ok(put)
        finally:
            client.close()

    def stop(self) -> None:
        """End all programs in order, and read what the logs hold at last."""
        for program in self.programs:
            program.stop()
        for zombie in self.zombies:
            zombie.join(limit_s())
        final = str(self.folder / "final.jsonl")
        self._sdk(0).run("load_final", topic=self.topic, partitions=PARTITIONS, history=final)

    def judge(self, fault: str) -> None:
        """Print figures; fail on every promise that the history breaks."""
        self.notes.flush()
        history = self.history()
        commits = sum(1 for each in history.of("commit") if each.ok)
        acked = self.acknowledged()
        shown = ", ".join(
            f"{partition}: {seconds:.1f} s" for partition, seconds in longest_silence(history)
        )
        unknown = sum(put.outcome.value in ("unknown", "open") for put in history.of("put"))
        sys.stdout.write(
            f"\n| {fault}: longest without an ack {shown}; "
            f"{sum(acked.values())} acked, {unknown} unknown, {commits} commits\n"
        )
        anomalies = [str(anomaly) for anomaly in check(history)]
        assert not anomalies, "\n".join(anomalies)
        assert min(acked.values()) > 0, "a partition had no load"
        assert commits > 0, "the group did nothing"

    def close(self) -> None:
        """Leave no process behind."""
        for program in (*self.programs, *self.consumers):
            program.close()
        self.notes.close()


def longest_silence(history: History) -> list[tuple[int, float]]:
    """Partition and the longest time between two acknowledgements of its puts, in seconds."""
    acks: dict[int, list[float]] = defaultdict(list)
    for put in history.of("put"):
        if put.ok:
            acks[put.args["partition"]].append(put.ended_s)
    return [(partition, longest_gap(times)) for partition, times in sorted(acks.items())]


def longest_gap(times: Iterable[float]) -> float:
    """The longest time between two of these moments; 0 without two."""
    return max((later - earlier for earlier, later in pairwise(sorted(times))), default=0.0)


@contextmanager
def traffic(
    cluster: ClusterProcesses, folder: Path, fault: str, durability: str = "synced"
) -> Iterator[Traffic]:
    """Load while the body does harm; at its end the cluster must work, and is judged."""
    load = Traffic(cluster, folder, durability)
    try:
        load.start()
        yield load
        load.wait_progress()
        load.wait_commits()
        load.stop()
        load.judge(fault)
    except BaseException:
        sys.stdout.write(f"\n{fault} failed; the servers said\n{cluster.said()}\n")
        raise
    finally:
        load.close()
