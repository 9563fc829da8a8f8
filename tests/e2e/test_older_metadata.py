"""meta.sqlite comes back older than the files: refused by name at every door, and repaired."""

import sqlite3
from pathlib import Path

import pytest
from tests.e2e.rest.client import figure, rest
from tests.server_process import TALOS, ServerProcess
from tests.waiting import completed

MESSAGES = 60
JOURNALED = '[log]\nsegment_bytes_max = 65536\njournal = "on"\njournal_files_open_max = 6\n'
PLAIN = '[log]\nsegment_bytes_max = 65536\njournal = "off"\n'


def send(server: ServerProcess, first: int, status: int = 200) -> str:
    """Put ``MESSAGES`` one by one, so that the log rolls; the last reply."""
    for number in range(first, first + MESSAGES):
        sent = {"messages": [{"text": f"{number:08d}" * 512}]}
        reply = rest(server, "POST", "topics/t/partitions/0/messages", sent)
        assert reply.status == status, reply
        if status != 200:
            break
    return str(reply.document)


def texts(server: ServerProcess) -> list[str]:
    """The numbers of all messages."""
    found: list[str] = []
    while True:
        path = f"topics/t/partitions/0/messages?offset={len(found)}&encoding=text"
        reply = rest(server, "GET", path)
        assert reply.status == 200, reply
        if not reply.document["messages"]:
            return found
        found += [message["text"][:8] for message in reply.document["messages"]]


def segments(server: ServerProcess) -> set[str]:
    return {str(path) for path in server.data.glob("log/*/*/*.log")}


def copied(server: ServerProcess, target: Path) -> None:
    """A consistent copy of the database, as it is now."""
    with sqlite3.connect(server.data / "meta.sqlite") as db, sqlite3.connect(target) as copy:
        db.backup(copy)
    db.close()
    copy.close()


def put_back(server: ServerProcess, copy: Path) -> None:
    for suffix in ("-wal", "-shm"):
        (server.data / f"meta.sqlite{suffix}").unlink(missing_ok=True)
    (server.data / "meta.sqlite").write_bytes(copy.read_bytes())


@pytest.mark.parametrize("config", [PLAIN, JOURNALED], ids=["files", "late"])
def test_an_older_manifest_is_refused_and_repaired(tmp_path: Path, config: str) -> None:
    server = ServerProcess(tmp_path, config).start()
    rest(server, "POST", "topics", {"name": "t", "partitions": 1})
    send(server, 0)
    copied(server, tmp_path / "older.sqlite")
    send(server, MESSAGES)
    before = segments(server)
    server.kill()
    put_back(server, tmp_path / "older.sqlite")
    storage: list[str | Path] = ["--data", server.data, "--config", tmp_path / "config.toml"]
    found = completed([TALOS, "log", "verify", *storage])
    assert found.returncode == 1
    assert "rolled back" in found.stdout

    server.start()
    for door in (
        rest(server, "GET", "topics/t/partitions/0/messages?offset=119"),
        rest(server, "GET", "topics/t/partitions/0/messages?offset=500"),
    ):
        assert door.status != 200, door
        assert "rolled back" in str(door.document)
    assert "rolled back" in send(server, 0, status=500)
    assert figure(server, "log_damaged_partitions") == 1
    health = rest(server, "GET", "health").document
    assert [alarm["name"] for alarm in health["alarms"]] == ["CorruptLog"]
    assert server.stop() == 0
    assert before <= segments(server), "nothing of it was deleted"

    backup, key, other = (tmp_path / name for name in ("backup", "key", "other"))
    assert completed([TALOS, "backup", backup, "--with-key", key, *storage]).returncode == 0
    assert completed([TALOS, "restore", backup, "--data", other, "--key", key]).returncode == 0
    restored: list[str | Path] = ["--data", other, "--config", tmp_path / "config.toml"]
    assert "rolled back" in completed([TALOS, "log", "verify", *restored]).stdout

    tried = completed([TALOS, "log", "repair", "--all", "--dry-run", *storage])
    assert tried.returncode == 0, tried
    assert "would adopt" in tried.stdout
    assert completed([TALOS, "log", "verify", *storage]).returncode == 1, "nothing was changed"
    done = completed([TALOS, "log", "repair", "--all", *storage])
    assert done.returncode == 0, done
    assert f"from offset 0 to {2 * MESSAGES - 1}" in done.stdout
    assert completed([TALOS, "log", "verify", *storage]).returncode == 0

    server.start()
    assert texts(server) == [f"{number:08d}" for number in range(2 * MESSAGES)]
    send(server, 2 * MESSAGES)
    assert len(texts(server)) == 3 * MESSAGES
    assert server.stop() == 0
