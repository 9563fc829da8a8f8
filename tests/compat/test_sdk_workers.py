"""TalosConsumer workers of the official SDK that join and leave one consumer group."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.compat.conftest import Sdk, sdk_environment
from tests.raw_client import RawClient, idl
from tests.waiting import elapse, ended, eventually, limit_s

PARTITIONS = 4
CHECK_S = 0.6  # between two checks of a topic by a worker, see QUICK_ROUNDS of sdk_programs


class Worker:
    """One consumer process and everything it said."""

    def __init__(self, sdk: Sdk, name: str, *, topic: str, group: str) -> None:
        command = sdk.command("talos_consumer", topic=topic, group=group, worker=name)
        self.process = subprocess.Popen(
            command,
            env=sdk_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.id = ""
        self.taken: dict[int, int] = {}  # partition to the offset it last started from
        self.delivered: dict[int, list[int]] = {}
        self.payloads: list[str] = []
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            kind, partition = event["event"], event.get("partition", -1)
            if kind == "started":
                self.id = event["worker"]
            elif kind == "taken":
                self.taken[partition] = event["start"]
            elif kind == "batch":
                self.delivered.setdefault(partition, []).extend(event["offsets"])
                self.payloads.extend(event["payloads"])

    def stop(self) -> None:
        """Let the worker commit, release and end."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            assert ended(self.process, "the worker ends") == 0
        finally:
            self.kill()
            self.reader.join(limit_s())
            self.process.stdout.close()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextmanager
def killed_at_the_end(*workers: Worker) -> Iterator[None]:
    try:
        yield
    finally:
        for worker in workers:
            worker.kill()
            for stream in (worker.process.stdin, worker.process.stdout):
                if stream is not None and not stream.closed:
                    worker.reader.join(limit_s())
                    stream.close()


def produce(sdk: Sdk, topic: str, first: int, count: int) -> set[str]:
    payloads = [f"m{number}" for number in range(first, first + count)]
    for partition in range(PARTITIONS):
        sdk.run(
            "simple_put",
            topic=topic,
            partition=partition,
            payloads=payloads[partition::PARTITIONS],
        )
    return set(payloads)


class Group:
    """A consumer group as the server sees it: the SDK does not always tell what it released."""

    def __init__(self, sdk: Sdk, topic: str, group: str) -> None:
        self.sdk, self.name = sdk, group
        self.resource = sdk.topic(topic, partitions=PARTITIONS)

    def held_by(self, worker: Worker) -> list[int]:
        """Partitions that this worker leases now."""
        client = RawClient(self.sdk.server.port)
        name = idl("topic").TopicTalosResourceName(self.resource)
        request = idl("consumer").QueryWorkerRequest(
            consumerGroup=self.name, topicTalosResourceName=name
        )
        workers = client.call("consumer", "queryWorker", request).workerMap
        client.close()
        return sorted(workers.get(worker.id, []))

    def is_shared_by(self, one: Worker, other: Worker) -> bool:
        """Whether the two workers lease all partitions, each as many as the other."""
        first, second = self.held_by(one), self.held_by(other)
        return len(first) == len(second) and sorted(first + second) == list(range(PARTITIONS))

    def wait_until_held(self, worker: Worker, count: int) -> None:
        eventually(
            f"the worker holds {count} partitions",
            lambda: len(self.held_by(worker)) == count,
            state=lambda: self.held_by(worker),
        )


def test_two_workers_share_the_partitions_and_lose_nothing(sdk: Sdk) -> None:
    topic = "workers"
    group = Group(sdk, topic, "pair")
    sent = produce(sdk, topic, 0, 200)
    one = Worker(sdk, "one", topic=topic, group=group.name)
    with killed_at_the_end(one):
        eventually("the first worker read everything", lambda: set(one.payloads) >= sent)
        group.wait_until_held(one, PARTITIONS)
        second = Worker(sdk, "two", topic=topic, group=group.name)
        with killed_at_the_end(second):
            eventually("each has half of the partitions", lambda: group.is_shared_by(one, second))
            eventually("the second worker started", lambda: len(second.taken) == PARTITIONS // 2)
            assert set(second.taken.values()) == {200 // PARTITIONS}, "it starts at the checkpoint"
            sent |= produce(sdk, topic, 200, 200)
            eventually("both read on", lambda: set(one.payloads) | set(second.payloads) >= sent)
            one.stop()
            group.wait_until_held(second, PARTITIONS)
            sent |= produce(sdk, topic, 400, 80)
            eventually("one reads all", lambda: set(one.payloads) | set(second.payloads) >= sent)
            second.stop()
    for worker in (one, second):
        for offsets in worker.delivered.values():
            assert offsets == sorted(set(offsets)), "offsets go up"


def test_a_killed_workers_partitions_pass_on_and_checkpoints_hold(sdk: Sdk) -> None:
    topic = "killed-worker"
    group = Group(sdk, topic, "survivors")
    sent = produce(sdk, topic, 0, 80)
    one = Worker(sdk, "dies", topic=topic, group=group.name)
    with killed_at_the_end(one):
        eventually("the first worker read everything", lambda: set(one.payloads) >= sent)
        one.kill()
        second = Worker(sdk, "lives", topic=topic, group=group.name)
        with killed_at_the_end(second):
            group.wait_until_held(second, PARTITIONS)
            sent |= produce(sdk, topic, 80, 80)
            eventually(
                "the second reads on", lambda: set(one.payloads) | set(second.payloads) >= sent
            )
            second.stop()


def test_a_worker_survives_the_deletion_of_its_topic(sdk: Sdk) -> None:
    topic = "deleted-under-worker"
    group = Group(sdk, topic, "orphans")
    sent = produce(sdk, topic, 0, 40)
    worker = Worker(sdk, "orphan", topic=topic, group=group.name)
    with killed_at_the_end(worker):
        eventually("the worker read everything", lambda: set(worker.payloads) >= sent)
        client = RawClient(sdk.server.port)
        name = idl("topic").TopicTalosResourceName(group.resource)
        client.call("topic", "deleteTopic", idl("topic").DeleteTopicRequest(name))
        client.close()
        sdk.topic(topic, partitions=PARTITIONS)  # another topic of the same name
        produce(sdk, topic, 1000, 40)
        # It says nothing when it finds that its topic is gone.
        elapse("the worker checks the topic several times", 4 * CHECK_S)
        worker.stop()
    assert set(worker.payloads) == sent, "the new topic is another one"
    assert "Traceback" not in sdk.server.stderr()
