"""A catalogue that came back older than the files: what it does not know is named, and kept."""

import shutil
import sqlite3
from pathlib import Path

from tests.e2e.rest.client import figure, rest
from tests.raw_client import connection_to
from tests.server_process import TALOS, ServerProcess
from tests.waiting import completed, eventually, stays

MESSAGES = 5


def topic_with_messages(server: ServerProcess) -> str:
    """Make topic t with messages in both partitions; its uuid."""
    made = rest(server, "POST", "topics", {"name": "t", "partitions": 2})
    for partition in (0, 1):
        sent = {"messages": [{"text": f"{partition}-{n}"} for n in range(MESSAGES)]}
        reply = rest(server, "POST", f"topics/t/partitions/{partition}/messages", sent)
        assert reply.status == 200, reply
    return str(made.document["resource"]).rpartition("#")[2]


def texts(server: ServerProcess, partition: int) -> list[str]:
    path = f"topics/t/partitions/{partition}/messages?offset=0&encoding=text"
    reply = rest(server, "GET", path)
    assert reply.status == 200, reply
    return [message["text"] for message in reply.document["messages"]]


def alarms(server: ServerProcess) -> list[str]:
    return [alarm["name"] for alarm in rest(server, "GET", "health").document["alarms"]]


def readiness(server: ServerProcess) -> str:
    connection = connection_to(server.port, None)
    connection.request("GET", "/readyz")
    reply = connection.getresponse()
    text = reply.read().decode()
    connection.close()
    assert reply.status == 200
    return text


def take_records(server: ServerProcess, prefix: str) -> list[tuple[object, ...]]:
    """Remove control records of a stopped server, as a copy has it that is older than they are."""
    with sqlite3.connect(server.data / "meta.sqlite") as db:
        found = db.execute("SELECT * FROM records WHERE path LIKE ?", (f"{prefix}%",)).fetchall()
        db.execute("DELETE FROM records WHERE path LIKE ?", (f"{prefix}%",))
    db.close()
    assert found
    return found


def put_back(server: ServerProcess, records: list[tuple[object, ...]]) -> None:
    with sqlite3.connect(server.data / "meta.sqlite") as db:
        columns = ", ".join("?" * len(records[0]))
        db.executemany(f"INSERT INTO records VALUES ({columns})", records)
    db.close()


def stored(server: ServerProcess, uuid: str) -> list[str]:
    return sorted(str(path) for path in (server.data / "log" / uuid).rglob("*") if path.is_file())


def test_a_topic_that_an_older_catalogue_lacks_is_named_kept_and_adopted(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path).start()
    try:
        uuid = topic_with_messages(server)
        assert server.stop() == 0
        before = stored(server, uuid)
        take_records(server, "topics/root/t")
        manifests = take_records(server, f"log/{uuid}/")
        server.start()
        named = f"topic {uuid} has no record"
        eventually("the topic is named", lambda: named in server.stderr(), state=server.stderr)
        assert "stored: partitions 0-1, segments: 2" in server.stderr()
        assert f"talos log adopt {uuid} OWNER/NAME" in server.stderr()
        assert alarms(server) == ["UnknownTopic"]
        assert "stored topics that the catalogue does not know" in readiness(server)
        assert figure(server, "unknown_topics") == 1
        assert rest(server, "GET", "topics/t").status == 404
        adopt: list[str | Path] = [TALOS, "log", "adopt", uuid, "root/t", "--data", server.data]
        refused = completed(adopt)
        assert refused.returncode == 1
        assert "the server with pid" in refused.stderr
        assert server.stop() == 0
        assert stored(server, uuid) == before

        verify = completed([TALOS, "log", "verify", "--data", server.data])
        assert verify.returncode == 1
        assert f"files of a topic that the catalogue does not know: topic {uuid}" in verify.stdout
        put_back(server, manifests)
        adopted = completed(adopt)
        assert adopted.returncode == 0, adopted.stderr
        assert f"adopted topic root/t ({uuid}) with 2 partitions" in adopted.stdout
        assert completed([TALOS, "log", "verify", "--data", server.data]).returncode == 0
        server.start()
        for partition in (0, 1):
            assert texts(server, partition) == [f"{partition}-{n}" for n in range(MESSAGES)]
        assert rest(server, "GET", "topics/t").document["retention_s"] == 365 * 86_400
    finally:
        server.stop()


def test_a_lost_topic_whose_messages_only_a_journal_has_is_kept_and_repaired(
    tmp_path: Path,
) -> None:
    server = ServerProcess(tmp_path).start()
    try:
        uuid = topic_with_messages(server)
        server.kill()
        take_records(server, "topics/root/t")
        take_records(server, f"log/{uuid}/")
        journals = set((server.data / "log" / "journal").glob("*/*.jnl"))
        server.start()
        named = f"topic {uuid} has no record"
        eventually("the topic is named", lambda: named in server.stderr(), state=server.stderr)
        stays("the journal is kept", lambda: any(path.exists() for path in journals))
        assert server.stop() == 0
        verify = completed([TALOS, "log", "verify", "--data", server.data])
        assert verify.returncode == 1
        assert f"files of a topic that the catalogue does not know: topic {uuid}" in verify.stdout
        adopted = completed([TALOS, "log", "adopt", uuid, "root/t", "--data", server.data])
        assert adopted.returncode == 0, adopted.stderr
        for number in ("0", "1"):
            wanted = f"{uuid}/{number}"
            assert f"talos log repair {wanted}" in adopted.stdout
            repaired = completed([TALOS, "log", "repair", wanted, "--data", server.data])
            assert repaired.returncode == 0, repaired.stderr
        server.start()
        for partition in (0, 1):
            assert texts(server, partition) == [f"{partition}-{n}" for n in range(MESSAGES)]
    finally:
        server.stop()


def test_a_late_file_of_a_deleted_topic_is_removed_without_an_alarm(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path).start()
    try:
        uuid = topic_with_messages(server)
        assert server.stop() == 0
        kept = next((server.data / "log" / uuid / "0").glob("*.log"))
        saved = Path(shutil.copy(kept, tmp_path / "late.log"))
        server.start()
        assert rest(server, "DELETE", "topics/t").status == 204
        eventually("the topic is gone", lambda: not stored(server, uuid))
        assert server.stop() == 0
        kept.parent.mkdir(parents=True)
        shutil.copy(saved, kept)
        verify = completed([TALOS, "log", "verify", "--data", server.data])
        assert verify.returncode == 0, verify.stdout
        assert f"note: topic root/t ({uuid}) was deleted" in verify.stdout
        server.start()
        eventually("the file is removed", lambda: not stored(server, uuid), state=server.stderr)
        removed = "what the deletion of topic root/t"
        eventually("the server says so", lambda: removed in server.stderr(), state=server.stderr)
        assert alarms(server) == []
        assert figure(server, "topic_leftovers_removed_total") == 1
    finally:
        server.stop()
