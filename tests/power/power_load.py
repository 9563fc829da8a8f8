"""Load while the power is cut: writers, readers, a group, topics that come and go."""

import json
import time
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from threading import Event, Thread
from typing import Any

from tests.cluster_load import Program
from tests.compat.conftest import Sdk
from tests.quiet_load import final_config, final_read, read_blocks
from tests.raw_client import RawClient, RawTopic, TalosError, idl
from tests.server_process import ServerProcess
from tests.waiting import eventually

from opentalos.sdk.sync.client import Client
from opentalos.sdk.sync.simple_consumer import SimpleConsumer
from opentalos.testing.simulation.history import Recorder

SYNCED, FLUSHED = "synced", "flushed"
PARTITIONS = {SYNCED: 1, FLUSHED: 1}
WRITERS = 2  # of each partition
GROUP = "g"
PAUSE_S = 0.004  # between two puts of a writer
MAKER_PAUSE_S = 0.05
UNKNOWN_CODE = 2


class PowerLoad:
    """Programs of the official SDK on two topics, and a thread that makes and deletes others."""

    def __init__(
        self, server: ServerProcess, folder: Path, topics: tuple[str, ...] = (SYNCED, FLUSHED)
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._topics = {topic: PARTITIONS[topic] for topic in topics}
        self.server, self.folder = server, folder
        self.writers: list[Program] = []
        self.others: list[Program] = []
        self._readers = 0
        self._notes = (folder / "notes.jsonl").open("w")
        self._recorder = Recorder(time.monotonic, self._notes)
        self._maker = TopicMaker(server, folder / "maker.jsonl")

    def start(self) -> None:
        """Return when every writer was answered."""
        for topic, partitions in self._topics.items():
            Sdk(self.server).topic(topic, partitions=partitions, durability=topic)
            self._recorder.note("topic", topic=topic, durability=topic)
            for partition in range(partitions):
                for number in range(WRITERS):
                    name = f"{topic}-{partition}-{number}"
                    args = {"topic": topic, "partition": partition, "pause_s": PAUSE_S}
                    self.writers.append(self._program("load_writer", name, **args))
        self.others.append(
            self._program("load_reader", "reader", topic=SYNCED, partition=0, pause_s=PAUSE_S)
        )
        args = {"topic": SYNCED, "group": GROUP, "partitions": PARTITIONS[SYNCED], "first": 0}
        self.others.append(self._program("load_group", "worker", **args))
        for program in (*self.writers, *self.others):
            program.wait_started()
        self._maker.start()
        self.wait_progress()

    def note_power_loss(self) -> None:
        """The checker lets a flushed topic lose its end here."""
        self._recorder.note("power-loss")

    def wait_progress(self) -> None:
        """Every writer was answered anew."""
        before = [answered(program) for program in self.writers]

        def all_answered() -> bool:
            pairs = zip(self.writers, before, strict=True)
            return all(answered(program) > count for program, count in pairs)

        eventually("every writer is answered", all_answered)

    def wait_commit(self) -> None:
        """The worker's commit of a checkpoint was acknowledged anew."""
        worker = self.others[-1]
        before = commits(worker)
        eventually("a commit is answered", lambda: commits(worker) > before)

    def acknowledged(self) -> int:
        """Puts of the writers."""
        return sum(map(answered, self.writers))

    def made(self) -> list[str]:
        """Topics that were acknowledged and not deleted."""
        return self._maker.made

    def stop(self) -> None:
        """End the load in order."""
        self._maker.stop()
        for program in (*self.writers, *self.others):
            program.stop()

    def read_all(self, server: ServerProcess, path: Path) -> None:
        """What the logs and checkpoints are at last, as ``server`` says."""
        with path.open("w") as sink, Client(final_config(server)) as client:
            recorder = Recorder(time.monotonic, sink)
            topics = self._topics | dict.fromkeys(self.made(), 1)
            for topic, partitions in topics.items():
                with SimpleConsumer(client, topic) as consumer:
                    for partition in range(partitions):
                        with final_read(recorder, topic, partition) as result:
                            bounds = consumer.offsets()[partition]
                            result |= read_blocks(consumer, partition, bounds)
            for partition in range(PARTITIONS[SYNCED]):
                read_checkpoint(server, recorder, partition)

    def paths(self, final: Path) -> list[Path]:
        """Files of its history, with these last reads."""
        self._notes.flush()
        return [*self.folder.glob("*.jsonl"), final]

    def close(self) -> None:
        """Leave nothing behind."""
        self._maker.close()
        for program in (*self.writers, *self.others):
            program.close()
        self._notes.close()

    def _program(self, program: str, name: str, **args: Any) -> Program:
        path = self.folder / f"{name}.jsonl"
        command = Sdk(self.server).command(program, prefix=name, history=str(path), **args)
        return Program(command, path)


def answered(program: Program) -> int:
    """How many calls of a program succeeded."""
    return program.path.read_text().count('"event": "ok"') if program.path.exists() else 0


def commits(program: Program) -> int:
    """How many of its commits of checkpoints succeeded."""
    lines = [json.loads(line) for line in program.path.read_text().splitlines(True) if "\n" in line]
    begun = {line["op"] for line in lines if line.get("action") == "commit"}
    return sum(line["event"] == "ok" and line["op"] in begun for line in lines)


class TopicMaker:
    """Makes topics with one message each and deletes every second one, so directories change."""

    def __init__(self, server: ServerProcess, path: Path) -> None:
        self.made: list[str] = []  # acknowledged, and no deletion was tried
        self._server = server
        self._sink = path.open("w")
        self._recorder = Recorder(time.monotonic, self._sink)
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="topic-maker", daemon=True)

    def start(self) -> None:
        """Make topics until ``stop``."""
        self._thread.start()

    def stop(self) -> None:
        """End after the call under way."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._sink.flush()

    def close(self) -> None:
        """End it."""
        self.stop()
        self._sink.close()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(MAKER_PAUSE_S):
            number += 1
            client = RawClient(self._server.port)
            with suppress(TalosError, OSError, HTTPException):
                self._make(client, f"made-{number}", deleted=number % 2 == 0)
            client.close()

    def _make(self, client: RawClient, name: str, *, deleted: bool) -> None:
        topic = RawTopic.create(client, name)
        if not deleted:
            self.made.append(name)
        put = self._recorder.invoke("maker", "put", topic=name, partition=0, ids=[name])
        try:
            topic.put(name.encode())
        except TalosError as error:
            ended = self._recorder.unknown if error.code == UNKNOWN_CODE else self._recorder.fail
            ended(put, str(error)[:200])
        except (OSError, HTTPException) as error:
            self._recorder.unknown(put, repr(error)[:200])
        else:
            self._recorder.ok(put)
        if deleted:
            request = idl("topic").DeleteTopicRequest(topicTalosResourceName=topic.resource)
            removal = self._recorder.invoke("maker", "delete", topic=name)
            client.call("topic", "deleteTopic", request)
            self._recorder.ok(removal)


def read_checkpoint(server: ServerProcess, recorder: Recorder, partition: int) -> None:
    """The last checkpoint of the group."""
    client = RawClient(server.port)
    args = {"group": GROUP, "topic": SYNCED, "partition": partition, "healed": True}
    query = recorder.invoke("final", "checkpoint", **args)
    try:
        described = client.call(
            "topic", "getDescribeInfo", idl("topic").GetDescribeInfoRequest(topicName=SYNCED)
        )
        address = RawTopic(client, SYNCED, described.topicTalosResourceName).partition(partition)
        request = idl("consumer").QueryOffsetRequest(consumerGroup=GROUP, topicAndPartition=address)
        found = client.call("consumer", "queryOffset", request)
    except TalosError as error:
        recorder.fail(query, str(error)[:200])
    else:
        recorder.ok(query, offset=found.msgOffset)
    finally:
        client.close()
