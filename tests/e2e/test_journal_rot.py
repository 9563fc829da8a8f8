"""A flipped byte in the journal of a stopped server: who is refused, who serves, who says so."""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.raw_client import RawClient, RawTopic, TalosError
from tests.server_process import TALOS, ServerProcess
from tests.waiting import completed

CONFIG = '[log]\njournal = "on"\njournals = 1\n'
LARGE = b"." * 70_000  # goes to the segment itself, which so proves what lies before


def fill(server: ServerProcess) -> tuple[RawTopic, RawTopic]:
    """Frames in this order: 0, then 1, then 2; a topic beside them uses no journal."""
    client = RawClient(server.port)
    shared = RawTopic.create(client, "shared", partitions=3, durability="synced")
    beside = RawTopic.create(client, "beside", durability="flushed")
    beside.put(b"beside")
    for partition in range(3):
        for text in (b"first", b"second"):
            shared.put(text, partition=partition)
    shared.put(LARGE, partition=0)
    for partition in range(3):
        shared.put(b"last of %d" % partition, partition=partition)
    client.close()
    return shared, beside


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[tuple[ServerProcess, RawTopic, RawTopic, Path]]:
    """A killed server; a byte of the last message of partition 1 is flipped in its journal."""
    server = ServerProcess(tmp_path, CONFIG).start()
    shared, beside = fill(server)
    server.kill()
    (path,) = server.data.glob("log/journal/*/*.jnl")
    content = bytearray(path.read_bytes())
    content[content.index(b"last of 1")] ^= 1
    path.write_bytes(content)
    yield server, shared, beside, path
    server.kill()


def verify(server: ServerProcess) -> subprocess.CompletedProcess[str]:
    return completed([TALOS, "log", "verify", "--data", server.data])


def test_a_rotten_journal_is_named_and_refuses_only_whom_it_concerns(
    damaged: tuple[ServerProcess, RawTopic, RawTopic, Path],
) -> None:
    server, shared, beside, path = damaged
    done = verify(server)
    assert done.returncode != 0
    assert path.parent.name in done.stdout + done.stderr
    server.start()
    with closing(RawClient(server.port)) as client:
        shared.client = beside.client = client
        for partition in (0, 1):
            with pytest.raises(TalosError, match=f"{path.parent.name}.* is damaged"):
                shared.put(b"refused", partition=partition)
        # What its file proves without the journal.
        assert shared.get(0, partition=0).messageNumber >= 2
        assert shared.get(0, partition=2).messageNumber == 3
        shared.put(b"more", partition=2)
        assert beside.get(0).messageNumber == 1
        beside.put(b"more")
        new = RawTopic.create(client, "new", durability="synced")
        new.put(b"first")
        new.put(b"second")
    assert path.exists(), "the journal is needed for a repair"
