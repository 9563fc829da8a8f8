"""Databases of a stopped server that rotted or came back older: who says so, who serves."""

import json
import re
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from http import HTTPStatus
from itertools import product
from pathlib import Path

import pytest
from tests.e2e.test_serve import rest
from tests.raw_client import RawClient, RawTopic, TalosError
from tests.server_process import TALOS, ServerProcess
from tests.waiting import completed

FRAME = 24 + 4096


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    server = ServerProcess(tmp_path)
    yield server
    server.kill()


def filled(server: ServerProcess, *names: str) -> list[RawTopic]:
    """Topics with ten messages in each of two partitions."""
    with closing(RawClient(server.port)) as client:
        topics = [RawTopic.create(client, name, partitions=2) for name in names]
        for topic in topics:
            for number in range(20):
                topic.put(b"message %d" % number, partition=number % 2)
    return topics


def refused(server: ServerProcess) -> str:
    """What a start that fails says."""
    with pytest.raises(AssertionError, match="not ready") as caught:
        server.start()
    text = str(caught.value).splitlines()[-1]
    assert "Traceback" not in str(caught.value)
    return text


def verified(server: ServerProcess) -> str:
    """What ``talos log verify`` says of a damaged data directory."""
    done = completed([TALOS, "log", "verify", "--data", server.data])
    assert (done.returncode, done.stderr) == (1, "")
    return done.stdout


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def test_a_flipped_bit_in_the_log_of_a_killed_server_is_refused_and_harms_nothing(
    server: ServerProcess,
) -> None:
    (topic,) = filled(server.start(), "clicks")
    server.kill()
    log = server.data / "meta.sqlite-wal"
    content = log.read_bytes()
    commits = [
        end
        for end in range(32 + FRAME, len(content) + 1, FRAME)
        if int.from_bytes(content[end - FRAME + 4 : end - FRAME + 8])
    ]
    position = commits[len(commits) // 2]
    flip(log, position + 1_000)
    damaged = log.read_bytes()
    for _ in range(2):
        text = refused(server)
        assert f"{log} is damaged at position {position}: SQLite would ignore" in text
        done = completed([TALOS, "log", "verify", "--data", server.data])
        assert done.returncode == 1
        assert f"{log} is damaged at position {position}" in done.stderr
        done = completed([TALOS, "backup", server.folder / "backup", "--data", server.data])
        assert done.returncode == 1
        assert f"{log} is damaged" in done.stderr
        assert log.read_bytes() == damaged
    log.write_bytes(content)
    server.start()
    with closing(RawClient(server.port)) as client:
        topic.client = client
        assert [topic.get(0, partition=number).messageNumber for number in (0, 1)] == [10, 10]
    assert server.stop() == 0


def test_only_the_partition_of_a_damaged_manifest_is_refused(server: ServerProcess) -> None:
    clicks, views = filled(server.start(), "clicks", "views")
    assert server.stop() == 0
    path = server.data / "meta.sqlite"
    with closing(sqlite3.connect(path)) as db:
        query = "SELECT value FROM records WHERE path LIKE 'topics/%/clicks'"
        name = f"log/{json.loads(db.execute(query).fetchone()[0])['uuid']}/1"
        query = "SELECT value FROM records WHERE path = ?"
        (value,) = db.execute(query, (name,)).fetchone()
    at = path.read_bytes().index(name.encode() + value) + len(name)
    flip(path, at + value.index(b"[0,1,10,") + len("[0,1,"))
    assert verified(server).count(f"record {name} in {path} is damaged") == 1
    server.start()
    with closing(RawClient(server.port)) as client:
        clicks.client = views.client = client
        for topic, partition in product((clicks, views), (0, 1)):
            if topic is clicks and partition == 1:
                text = f"record {name} in {path} is damaged; stop"
                for call in (partial(topic.put, b"more"), partial(topic.get, 0)):
                    with pytest.raises(TalosError, match=re.escape(text)):
                        call(partition=1)
            else:
                topic.put(b"more", partition=partition)
                assert (
                    topic.get(0, partition=partition).messageNumber == 10
                )  # of the sealed segment
    assert server.stop() == 0


@pytest.mark.parametrize("name", ["meta.sqlite", "rows.sqlite"])
def test_a_database_that_was_put_back_from_an_older_copy_is_refused(
    server: ServerProcess, name: str
) -> None:
    filled(server.start(), "clicks")
    assert server.stop() == 0
    shutil.copy(server.data / name, server.folder / "older")
    filled(server.start(), "views")
    assert server.stop() == 0
    backup, key = server.folder / "backup", server.folder / "key"
    backed_up = completed([TALOS, "backup", backup, "--data", server.data, "--with-key", key])
    assert backed_up.returncode == 0
    shutil.copy(server.folder / "older", server.data / name)
    text = refused(server)
    assert f"{name} was put back from an older copy" in text
    assert f"{name} was put back from an older copy" in verified(server)
    assert f"delete {server.data / 'run.json'} to serve them as they are" in text
    shutil.rmtree(server.data)
    restored = completed([TALOS, "restore", backup, "--data", server.data, "--key", key])
    assert restored.returncode == 0
    for topic in ("one", "two"):  # the files are of one time again
        filled(server.start(), topic)
        assert server.stop() == 0


def test_verify_reads_all_rows(server: ServerProcess) -> None:
    """A server hears of a damaged row when it reads it."""
    filled(server.start(), "clicks")
    group = "/rest/v1/topics/clicks/groups/readers"
    _, joined = rest(server, "POST", f"{group}/workers")
    commits = f"{group}/workers/{joined['worker']}/commits"
    assert rest(server, "POST", commits, {"offsets": {"1": 7}})[0] == HTTPStatus.OK
    assert server.stop() == 0
    path = server.data / "rows.sqlite"
    with closing(sqlite3.connect(path)) as db:
        found = db.execute("SELECT data FROM rows WHERE length(data) > 20").fetchall()
    flip(path, path.read_bytes().index(found[0][0]) + 10)
    assert f"in {path} is damaged" in verified(server)
    path.unlink()
    assert f"{path} is missing" in verified(server)
    assert not path.exists()
