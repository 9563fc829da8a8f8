"""Load of the third-party SDS client on a table with two streams, and what the checker says of it.

One stream has each mutation, the other each row as it then was; both must rebuild the table.
"""

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPException
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from tests.cluster_load import Program
from tests.cluster_processes import rest_get
from tests.compat.conftest import NO_NETWORK, PROGRAMS, ROOT, Sdk
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import completed, eventually

from opentalos.model.change import StreamView
from opentalos.model.errors import TalosError
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.values import Record
from opentalos.sdk.sync.client import Client
from opentalos.sdk.sync.simple_consumer import SimpleConsumer
from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.history import History, Operation, Recorder
from opentalos.wire.sds.change import decode_change

SDS_PYTHON = ROOT / ".sds-venv" / "bin" / "python"
SDS_PROGRAMS = ROOT / "tests" / "compat" / "sds_programs"
KEYS = ("grp", "id")
PARTITIONS = 3  # of each topic
SHARDS = 4
THREADS = 2  # of one load program
MARK_INTERVAL_S = 0.5


def sds_environment() -> dict[str, str]:
    """What programs of the SDS client see: no network, and how other programs write histories."""
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return {**kept, "PYTHONPATH": f"{NO_NETWORK}:{PROGRAMS}", "PYTHONWARNINGS": "ignore"}


class TableLoad:
    """Programs of the SDS client on one fresh table; one of them asks each of the servers."""

    def __init__(self, servers: Sequence[ServerProcess], folder: Path, pause_s: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.servers, self.folder, self.pause_s = servers, folder, pause_s
        self.table = f"t{os.urandom(4).hex()}"
        self.streams = {f"{self.table}-log": StreamView.MUTATE_LOG}
        self.streams[f"{self.table}-image"] = StreamView.RECORD_IMAGE
        self.programs: list[Program] = []
        self.notes = (folder / "notes.jsonl").open("w")
        self.recorder = Recorder(time.monotonic, self.notes)
        self._stopping = threading.Event()
        self._watcher = threading.Thread(target=self._watch_marks, daemon=True)

    def start(self) -> None:
        """Topics, table, load; returns when every program was answered."""
        self.resources = [self.make_topic(topic) for topic in self.streams]
        views = {topic: view.name for topic, view in self.streams.items()}
        made = self._run("load_create", table=self.table, streams=views, shards=SHARDS)
        self.uuid = str(made["uuid"])
        self.recorder.note("table", table=self.table, streams=views)
        for number, server in enumerate(self.servers):
            path = self.folder / f"mutations-{number}.jsonl"
            command = self._command(
                server,
                "load_mutations",
                prefix=f"w{number}",
                threads=THREADS,
                pause_s=self.pause_s,
                history=str(path),
            )
            self.programs.append(Program(command, path, sds_environment()))
        for program in self.programs:
            program.wait_started()
        self._watcher.start()
        self.wait_progress()

    def make_topic(self, topic: str) -> str:
        """Create a stream's topic; its resource name."""
        return Sdk(self.servers[0]).topic(topic, partitions=PARTITIONS)

    def stream_path(self, topic: str) -> str:
        """REST of a stream."""
        return f"/rest/v1/tables/{self.table}/streams/{quote(topic, safe='')}"

    def _watch_marks(self) -> None:
        """Ask each server in turn how far the streams are; one that is away reports nothing."""
        asked = itertools.cycle(itertools.product(self.servers, self.streams))
        while not self._stopping.wait(MARK_INTERVAL_S):
            server, topic = next(asked)
            args = {"table": self.table, "topic": topic}
            mark = self.recorder.invoke("marks", "mark", **args)
            try:
                reported = rest_get(server, self.stream_path(topic))["mark"]
            except (OSError, HTTPException, AssertionError) as error:
                self.recorder.fail(mark, repr(error))
                continue
            if reported is None:
                self.recorder.fail(mark, "there is none now")
                continue
            offsets = [[int(partition), next_] for partition, next_ in reported["offsets"].items()]
            self.recorder.ok(mark, timestamp_ms=reported["timestamp_ms"], offsets=offsets)

    def history(self) -> History:
        """Everything so far."""
        return History.load(sorted(self.folder.glob("*.jsonl")))

    def answered(self) -> int:
        """How many mutations were answered with success."""
        return sum(1 for each in self.history().of("mutate") if each.ok)

    def wait_progress(self) -> None:
        """Wait until mutations of every row's group were answered that began from now on."""
        began_s = time.monotonic()

        def answered() -> bool:
            done = [each for each in self.history().of("mutate") if each.ok]
            groups = {group_of(each) for each in done}
            since = {group_of(each) for each in done if each.began_s > began_s}
            return bool(since) and since == groups

        eventually(f"mutations of {self.table} continue", answered)

    def stop(self) -> None:
        """End the load, mutate each row a last time, read the table."""
        for program in self.programs:
            program.stop()
        self._stop_watching()
        self._last = self._run("load_end", history=str(self.folder / "end.jsonl"))

    def read_streams(self) -> None:
        """Read both streams whole, once each has the last change of every row."""
        kept, removed = set(self._last["kept"]), set(self._last["removed"])
        for topic, view in self.streams.items():
            stream = Stream(topic, view)
            with Client(self.config()) as client:
                eventually(
                    f"{topic} has the last changes", partial(stream.ended, client, kept, removed)
                )
            for partition, records in stream.records.items():
                self._record(topic, view, partition, records)

    def _stop_watching(self) -> None:
        self._stopping.set()
        if self._watcher.is_alive():
            self._watcher.join()

    def config(self) -> ClientConfig:
        """Of clients that ask the servers that run now."""
        endpoints = tuple(server.url for server in self.servers if server.process is not None)
        return ClientConfig(endpoints=endpoints, key_id=ROOT_KEY.key_id, secret=ROOT_KEY.secret)

    def _record(self, topic: str, view: StreamView, partition: int, records: list[Record]) -> None:
        args = {"table": self.table, "topic": topic, "partition": partition}
        read = self.recorder.invoke("reader", "changes", **args)
        changes = [[record.offset, change_of(view, record)] for record in records]
        end = records[-1].offset + 1 if records else 0
        self.recorder.ok(read, start=0, next=end, changes=changes)

    def judge(self, fault: str) -> None:
        """Print figures; fail on every promise that the history breaks."""
        history = self.history()
        mutations = history.of("mutate")
        done = [each for each in mutations if each.ok]
        unknown = sum(each.outcome.value in ("unknown", "open") for each in mutations)
        marks = sum(each.ok for each in history.of("mark"))
        messages = sum(len(each.result["changes"]) for each in history.of("changes"))
        sys.stdout.write(
            f"\n| {fault}: longest without an answered mutation of a group of rows "
            f"{longest_silence_s(done):.1f} s; "
            f"{len(done)} answered, {unknown} unknown, {messages} messages in two streams, "
            f"{marks} marks\n"
        )
        anomalies = [str(anomaly) for anomaly in check(history)]
        assert not anomalies, "\n".join(anomalies)

    def close(self) -> None:
        """Leave no process behind."""
        self._stop_watching()
        for program in self.programs:
            program.close()
        self.notes.close()

    def _command(self, server: ServerProcess, program: str, **arguments: Any) -> list[str]:
        whole = {
            "url": server.url,
            "key_id": ROOT_KEY.key_id,
            "secret": ROOT_KEY.secret,
            "table": self.table,
            **arguments,
        }
        return [str(SDS_PYTHON), str(SDS_PROGRAMS / f"{program}.py"), json.dumps(whole)]

    def _run(self, program: str, **arguments: Any) -> dict[str, Any]:
        """What a program reports in its only line."""
        server = next(item for item in self.servers if item.process is not None)
        command = self._command(server, program, **arguments)
        done = completed(command, env=sds_environment(), stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"{done.stderr}\nserver:\n{server.stderr()}"
        reported: dict[str, Any] = json.loads(done.stdout)
        return reported


class Stream:
    """Everything that the partitions of a stream's topic hold, read on from where it ended."""

    def __init__(self, topic: str, view: StreamView) -> None:
        self.topic, self.view = topic, view
        self.records: dict[int, list[Record]] = {}
        self._gone: dict[str, tuple[int, bool]] = {}  # last sequence of a row, and what it left
        self._last: set[str] = set()  # rows that were put a last time

    def ended(self, client: Client, kept: set[str], removed: set[str]) -> bool:
        """Whether every row was put a last time, and these removed after it."""
        with SimpleConsumer(client, self.topic) as consumer, suppress(TalosError):
            for partition, bounds in consumer.offsets().items():
                self._read_on(consumer, partition, bounds.next)
        gone = {key for key in self._last if self._gone[key][1]}
        return (self._last - gone, gone) == (kept, removed)

    def _read_on(self, consumer: SimpleConsumer, partition: int, stop: int) -> None:
        records = self.records.setdefault(partition, [])
        while (offset := records[-1].offset + 1 if records else 0) < stop:
            fetched = consumer.fetch(partition, offset)
            if not fetched:
                return
            records += fetched
            for reported in (change_of(self.view, record) for record in fetched):
                key, end = reported["key"], (reported["sequence"], reported["row_deleted"])
                self._gone[key] = max(self._gone.get(key, end), end)
                columns = {**reported["columns"], **reported["image"]}
                if str(columns.get("token", "")).startswith("last-"):
                    self._last.add(key)


def longest_silence_s(done: Sequence[Operation]) -> float:
    """The longest time between two answers about one group of rows, which lies in one shard."""
    times: dict[str, list[float]] = defaultdict(list)
    for each in done:
        times[group_of(each)].append(each.ended_s)
    gaps = [later - earlier for item in times.values() for earlier, later in pairwise(sorted(item))]
    return max(gaps, default=0.0)


def group_of(mutation: Operation) -> str:
    """The row's entity group."""
    return str(mutation.args["key"]).partition("/")[0]


def change_of(view: StreamView, record: Record) -> dict[str, Any]:
    """A stream's message as histories have it."""
    _, change = decode_change(view, record.data, KEYS, int(record.sequence_number or 0))
    key = [change.key[name].value for name in KEYS]
    return {
        "key": "/".join(map(str, key)),
        "sequence": change.sequence,
        "timestamp_ms": change.timestamp_ms,
        "kind": change.kind.name.lower(),
        "row_deleted": change.row_deleted,
        **{
            name: {column: datum.value for column, datum in columns.items()}
            for name, columns in (
                ("columns", change.columns),
                ("amounts", change.amounts),
                ("image", change.image),
            )
        },
    }


AnyLoad = TypeVar("AnyLoad", bound=TableLoad)


@contextmanager
def table_load(
    servers: Sequence[ServerProcess],
    folder: Path,
    fault: str,
    pause_s: float,
    last_harm: Callable[[], None] = lambda: None,
) -> Iterator[TableLoad]:
    """Load while the body does harm; at its end the servers must work, and are judged.

    Args: last_harm: done after the last mutations; nobody calls the table any more.
    """
    with judged(TableLoad(servers, folder, pause_s), fault, last_harm) as load:
        yield load


@contextmanager
def judged(
    load: AnyLoad, fault: str, last_harm: Callable[[], None] = lambda: None
) -> Iterator[AnyLoad]:
    """As ``table_load``, for any load."""
    try:
        load.start()
        yield load
        load.wait_progress()
        load.stop()
        last_harm()
        load.read_streams()
        load.judge(fault)
    except BaseException:
        said = "\n".join(server.stderr() for server in load.servers)
        sys.stdout.write(f"\n{fault} failed; the servers said\n{said}\n")
        raise
    finally:
        load.close()
