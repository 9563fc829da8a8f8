"""``talos backup`` of a server that serves under load, and ``talos restore`` of what it made."""

import json
import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from tests.e2e.sdk.conftest import config_of
from tests.e2e.test_serve import rest
from tests.server_process import TALOS, ServerProcess
from tests.waiting import completed, ended, eventually, limit_s

from opentalos.adapters.local.fence_format import encode_fence
from opentalos.adapters.sqlite.snapshot import copy_database
from opentalos.adapters.store_path import FENCE_SUFFIX
from opentalos.model.errors import CorruptLog
from opentalos.model.limits import LogLimits
from opentalos.sdk import (
    ConsumerSettings,
    SimpleConsumer,
    SimpleProducer,
    TalosAdmin,
    TalosConsumer,
)
from opentalos.server.backup import backup
from opentalos.server.backup.backup import make_backup
from opentalos.server.backup.restore import restore_backup
from opentalos.server.config import Config
from opentalos.testing import EmbeddedServer

TOPIC = "orders"
PARTITIONS = 3
SMALL_SEGMENTS = "[log]\nsegment_bytes_max = 65536\nretention_interval_s = 0.2\n"
JOURNALS = f'{SMALL_SEGMENTS}journal = "on"\njournal_bytes_max = 262144\n'  # trimmed all the time
LATE = f"{JOURNALS}journal_files_open_max = 2\n"  # segments get their files late
WARM_UP = 60  # puts of each partition before the backup
# The command, which stops after each file that it copied until a signal comes.
INTERRUPTED = """
import signal
from opentalos.cli.main import main
from opentalos.server.backup import backup
real = backup.copy_file
def copy(*given):
    copied = real(*given)
    print("copied", flush=True)
    signal.pause()
    return copied
backup.copy_file = copy
main()
"""


def talos(*arguments: object) -> subprocess.CompletedProcess[str]:
    return completed([TALOS, *map(str, arguments)])


class Load:
    """Numbered messages to every partition; which of them were acknowledged."""

    def __init__(self, url: str) -> None:
        self.acknowledged: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self._stop = threading.Event()
        self._producer = SimpleProducer(config_of(url), TOPIC)
        self._threads = [threading.Thread(target=self._put, args=(p,)) for p in range(PARTITIONS)]

    def _put(self, partition: int) -> None:
        done = self.acknowledged[partition]
        while not self._stop.is_set():
            message = b"%d/%d " % (partition, len(done)) + bytes(2000)
            self._producer.put([message], partition=partition)
            done.append(message)

    def _warm(self) -> bool:
        assert all(thread.is_alive() for thread in self._threads), "a put failed"
        return all(len(item) >= WARM_UP for item in self.acknowledged)

    def _counts(self) -> list[int]:
        return [len(item) for item in self.acknowledged]

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            eventually("every partition has messages", self._warm, state=self._counts)
            yield
        finally:
            self._stop.set()
            for thread in self._threads:
                thread.join()
            self._producer.close()


def read_all(url: str) -> list[list[bytes]]:
    found = []
    with SimpleConsumer(config_of(url), TOPIC) as consumer:
        for partition, offsets in sorted(consumer.offsets().items()):
            messages: list[bytes] = []
            while len(messages) < offsets.next:
                messages += [record.data for record in consumer.fetch(partition, len(messages))]
            found.append(messages)
    return found


def commit_some(server: ServerProcess) -> dict[str, int]:
    """A group that processed a part of each partition; its checkpoints."""
    group = f"/rest/v1/topics/{TOPIC}/groups/readers"
    status, worker = rest(server, "POST", f"{group}/workers")
    assert status == 201, worker
    offsets = {str(partition): 20 + partition for partition in worker["partitions"]}
    path = f"{group}/workers/{worker['worker']}"
    status, done = rest(server, "POST", f"{path}/commits", {"offsets": offsets})
    assert (status, done["refused"]) == (200, [])
    rest(server, "DELETE", path)
    return offsets


def checkpoints(server: ServerProcess) -> dict[str, int]:
    _, group = rest(server, "GET", f"/rest/v1/topics/{TOPIC}/groups/readers")
    return {
        str(partition["partition"]): partition["checkpoint"] for partition in group["partitions"]
    }


@pytest.fixture
def config() -> str:
    return SMALL_SEGMENTS


@pytest.fixture
def server(tmp_path: Path, config: str) -> Iterator[ServerProcess]:
    process = ServerProcess(tmp_path / "server", config).start()
    with TalosAdmin(config_of(process.url)) as admin:
        admin.topics.create(TOPIC, partitions=PARTITIONS)
    yield process
    process.kill()


@pytest.mark.parametrize("config", [SMALL_SEGMENTS, JOURNALS, LATE])
def test_a_backup_under_load_has_all_that_was_acknowledged(
    server: ServerProcess, config: str, tmp_path: Path
) -> None:
    load = Load(server.url)
    with load.running():
        committed = commit_some(server)
        before = [list(item) for item in load.acknowledged]
        key = ("--with-key", tmp_path / "talos.key")
        done = talos("backup", tmp_path / "copy", "--data", server.data, *key, "--format", "json")
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"] > PARTITIONS  # several segments
    server.kill()
    restored = tmp_path / "restored"
    assert (
        back := talos(
            "restore",
            tmp_path / "copy",
            "--data",
            restored / "data",
            "--key",
            tmp_path / "talos.key",
        )
    ).returncode == 0
    assert back.stderr == ""
    verified = talos("log", "verify", "--data", restored / "data")
    assert verified.returncode == 0, verified.stdout
    second = ServerProcess(restored, config).start()
    try:
        for kept, wanted, put in zip(read_all(second.url), before, load.acknowledged, strict=True):
            assert kept[: len(wanted)] == wanted
            assert kept[: len(put)] == put[: len(kept)]  # dense, in order, nothing twice
        assert checkpoints(second) == committed
        with SimpleProducer(config_of(second.url), TOPIC) as producer:
            producer.put([b"goes on"], partition=0)
    finally:
        second.stop()


def test_nothing_is_overwritten(server: ServerProcess, tmp_path: Path) -> None:
    target = tmp_path / "copies" / "one"
    assert talos("backup", target, "--data", server.data).returncode == 0
    again = talos("backup", target, "--data", server.data)
    assert (again.returncode, again.stdout) == (1, "")
    assert "already exists" in again.stderr
    full = talos("restore", target, "--data", server.data, "--key", server.data / "server.key")
    assert full.returncode == 1
    assert "already exists" in full.stderr


def test_an_interrupt_in_the_middle_leaves_nothing(server: ServerProcess, tmp_path: Path) -> None:
    with SimpleProducer(config_of(server.url), TOPIC) as producer:
        for _ in range(3):
            producer.put([os.urandom(1_000_000)], partition=0)
    folder, said = tmp_path / "copies", tmp_path / "said"
    command = [sys.executable, "-c", INTERRUPTED, "backup", str(folder / "one")]
    with said.open("w") as stderr:
        process = subprocess.Popen(
            [*command, "--data", str(server.data)], stdout=subprocess.PIPE, stderr=stderr
        )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"copied\n", said.read_text()
        assert list(folder.glob(".one.*/log/*/*/*"))
        process.send_signal(signal.SIGINT)
        assert ended(process, "an interrupted backup ends") == 130
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert "Traceback" not in said.read_text()
    assert list(folder.iterdir()) == []


def test_a_disk_that_takes_no_more_ends_it_in_one_line(
    server: ServerProcess, tmp_path: Path
) -> None:
    def take_little() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    command: list[str | Path] = [TALOS, "backup", tmp_path / "copy", "--data", server.data]
    done = completed(command, preexec_fn=take_little)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"server"}


def test_a_damaged_backup_is_refused(server: ServerProcess, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    assert talos("backup", copy, "--data", server.data).returncode == 0
    path = copy / "meta.sqlite"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    restored = ("--data", tmp_path / "restored", "--key", server.data / "server.key")
    done = talos("restore", copy, *restored)
    assert done.returncode == 1
    assert "checksum mismatch of meta.sqlite" in done.stderr
    path.unlink()
    done = talos("restore", copy, *restored)
    assert "meta.sqlite is missing" in done.stderr
    assert not (tmp_path / "restored").exists()
    assert [item.name for item in tmp_path.iterdir() if item.name.startswith(".")] == []
    done = talos("restore", tmp_path, "--data", tmp_path / "restored")
    assert "is not a backup" in done.stderr


def test_the_keys_are_not_in_the_backup_and_restoring_asks_for_them(
    server: ServerProcess, tmp_path: Path
) -> None:
    copy, key, data = tmp_path / "copy", tmp_path / "talos.key", tmp_path / "restored"
    done = talos("backup", copy, "--data", server.data, "--with-key", key)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    secret = (server.data / "server.key").read_bytes().strip()
    for path in copy.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
        assert not path.is_file() or secret not in path.read_bytes()
    without = talos("restore", copy, "--data", data)
    assert (without.returncode, data.exists()) == (1, False)
    assert "pass --key FILE" in without.stderr
    assert talos("restore", copy, "--data", data, "--key", key).returncode == 0
    assert (data / "server.key").read_bytes().strip() == secret


def test_what_is_no_server_s_data_is_refused_in_one_line(tmp_path: Path) -> None:
    done = talos("backup", tmp_path / "copy", "--data", tmp_path)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "not the data directory" in done.stderr


def test_a_cluster_s_backup_names_the_tools_to_use(tmp_path: Path) -> None:
    config = tmp_path / "talos.toml"
    config.write_text(
        '[storage]\nfiles = "hdfs://a:1/x"\nmeta = "zookeeper://a:2/x"\nrows = "hbase://a:3/x"\n'
    )
    done = talos("backup", tmp_path / "copy", "--config", config)
    assert done.returncode == 1
    assert "HDFS snapshots" in done.stderr


def test_no_checkpoint_is_beyond_the_end_of_its_copied_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segments roll and the group commits before each database is copied."""
    config = Config(log=LogLimits(segment_bytes_max=65_536))
    with EmbeddedServer(tmp_path / "data", config) as server:
        server.create_topic(TOPIC)
        client = server.client_config()
        settings = ConsumerSettings(auto_commit=False)
        with (
            SimpleProducer(client, TOPIC) as producer,
            TalosConsumer(client, TOPIC, "readers", settings) as consumer,
        ):

            def go_on() -> None:
                for _ in range(6):
                    reply = producer.put([os.urandom(30_000)])
                while consumer.poll(limit_s())[-1].offset < (reply.base_offset or 0):
                    pass
                consumer.commit()

            def copy(source: Path, target: Path) -> None:
                go_on()
                copy_database(source, target)

            monkeypatch.setattr(backup, "copy_database", copy)
            make_backup(
                config.with_server(data=str(tmp_path / "data")), tmp_path / "copy", lambda *_: None
            )
    restore_backup(
        tmp_path / "copy", tmp_path / "restored", lambda *_: None, tmp_path / "data/server.key"
    )
    with (
        EmbeddedServer(tmp_path / "restored", config) as server,
        TalosAdmin(server.client_config()) as admin,
    ):
        (state,) = admin.groups.lag(TOPIC, "readers")
        assert 0 < state.checkpoint <= admin.offsets(TOPIC)[0].end


@pytest.fixture
def stopped(tmp_path: Path) -> Config:
    """The data of a server that has two topics with a message each."""
    with EmbeddedServer(tmp_path / "data") as server:
        for name in ("kept", "lost"):
            server.create_topic(name)
            with SimpleProducer(server.client_config(), name) as producer:
                producer.put([name.encode()])
    return Config().with_server(data=str(tmp_path / "data"))


def first_log_file(data: Path) -> tuple[Path, str]:
    """The last segment of the data, and its manifest's path."""
    path = max((data / "log").rglob("*.log"))
    return path, f"log/{path.parent.parent.name}/{path.parent.name}"


def test_a_file_that_retention_removes_meanwhile_is_no_error(
    stopped: Config, tmp_path: Path
) -> None:
    data = Path(stopped.server.data)
    segment, manifest = first_log_file(data)

    def remove(_done: int, _total: int) -> None:
        """As the upkeep of a server does: the manifest first."""
        if segment.exists():
            with closing(sqlite3.connect(data / "meta.sqlite")) as meta:
                meta.execute("DELETE FROM records WHERE path = ?", (manifest,))
                meta.commit()
            segment.unlink()

    contents = make_backup(stopped, tmp_path / "copy", remove)
    assert not any(
        str(segment.name) in path and segment.parent.parent.name in path for path in contents
    )
    there = {
        str(path.relative_to(tmp_path / "copy"))
        for path in (tmp_path / "copy").rglob("*")
        if path.is_file()
    }
    assert there == set(contents) | {"backup.json"}


def test_a_file_that_stays_away_is_named(stopped: Config, tmp_path: Path) -> None:
    segment, _ = first_log_file(Path(stopped.server.data))
    segment.unlink()
    with pytest.raises(CorruptLog, match=segment.name):
        make_backup(stopped, tmp_path / "copy", lambda done, total: None)
    assert not (tmp_path / "copy").exists()


def test_data_after_a_fence_is_not_copied(stopped: Config, tmp_path: Path) -> None:
    segment, _ = first_log_file(Path(stopped.server.data))
    length = segment.stat().st_size
    segment.with_name(segment.name + FENCE_SUFFIX).write_bytes(encode_fence(length))
    with segment.open("ab") as file:
        file.write(b"of a writer that was fenced out")
    contents = make_backup(stopped, tmp_path / "copy", lambda done, total: None)
    (found,) = (
        item
        for path, item in contents.items()
        if path.endswith(segment.name) and segment.parent.parent.name in path
    )
    assert found.bytes == length
