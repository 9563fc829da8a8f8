"""Encryption at rest with a real server: what its disk has, keys, rotation, and a missing key."""

import base64
import re
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.sdk.conftest import config_of
from tests.e2e.test_serve import rest
from tests.server_process import TALOS, ServerProcess
from tests.waiting import completed

from opentalos.sdk import SimpleConsumer, SimpleProducer

TOPIC = "orders"
SECRET = b"a secret that no disk may have"
CITY = "a secret city"


def talos(*arguments: object) -> subprocess.CompletedProcess[str]:
    return completed([TALOS, *map(str, arguments)])


def key_file(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_bytes(base64.b64encode(secrets.token_bytes(32)))
    path.chmod(0o600)
    return path


def section(**keys: object) -> str:
    lines = [f'{name} = "{value}"' for name, value in keys.items()]
    return "\n".join(["[encryption]", *lines, ""])


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(tmp_path / "server")
    yield made
    if made.process is not None:
        made.kill()


def configure(server: ServerProcess, text: str) -> None:
    server.config = server.config.partition("[encryption]")[0] + text


def restart(server: ServerProcess, text: str) -> None:
    server.stop()
    configure(server, text)
    server.start()


def send(server: ServerProcess, *messages: bytes) -> None:
    with SimpleProducer(config_of(server.url), TOPIC) as producer:
        for message in messages:
            producer.put([message], partition=0)


def received(server: ServerProcess) -> list[bytes]:
    found: list[bytes] = []
    with SimpleConsumer(config_of(server.url), TOPIC) as consumer:
        end = consumer.offsets()[0].next
        while len(found) < end:
            found += [record.data for record in consumer.fetch(0, len(found))]
    return found


def files_with(folder: Path, text: bytes) -> list[str]:
    """Files of the data directory that have this text anywhere."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if path.is_file() and text in path.read_bytes()
    ]


@pytest.mark.parametrize("journal", ["off", "on"])
def test_the_disk_has_no_plaintext_and_every_start_with_the_key_reads_all(
    server: ServerProcess, tmp_path: Path, journal: str
) -> None:
    server.config = f'[log]\njournal = "{journal}"\n'
    key, next_key = key_file(tmp_path, "key"), key_file(tmp_path, "next")
    configure(server, section(key_file=key))
    server.start()
    assert rest(server, "POST", "/rest/v1/topics", {"name": TOPIC, "partitions": 1})[0] == 201
    columns = {"k": "string", "city": "string"}
    table = {"name": "people", "key": ["k"], "columns": columns}
    assert rest(server, "POST", "/rest/v1/tables", table)[0] == 201
    row = {"row": {"k": "1", "city": CITY}}
    assert rest(server, "POST", "/rest/v1/tables/people/rows/put", row)[0] == 200
    send(server, SECRET, SECRET + b" 2")
    server.kill()
    assert files_with(server.data, SECRET) == files_with(server.data, CITY.encode()) == []
    server.start()
    asked = {"key": {"k": "1"}}
    _, found = rest(server, "POST", "/rest/v1/tables/people/rows/get", asked)
    assert found["row"] == row["row"]
    assert received(server) == [SECRET, SECRET + b" 2"]
    assert rest(server, "POST", "/rest/v1/encryption/rotation", {})[0] == 200
    send(server, SECRET + b" 3")
    everything = [SECRET, SECRET + b" 2", SECRET + b" 3"]
    restart(server, section(key_file=next_key, other_key_file=key))
    assert received(server) == everything
    restart(server, section(key_command=f"cat '{next_key}'"))
    assert received(server) == everything
    restart(server, section(key_file=next_key).replace("\n", "\nenabled = false\n", 1))
    send(server, b"plain again")
    assert received(server) == [*everything, b"plain again"]
    server.stop()
    assert files_with(server.data, SECRET) == []
    assert files_with(server.data, b"plain again")


def test_a_start_without_the_key_says_what_is_missing_and_loses_nothing(
    server: ServerProcess, tmp_path: Path
) -> None:
    key, other = key_file(tmp_path, "key"), key_file(tmp_path, "other")
    server.start()
    assert rest(server, "POST", "/rest/v1/topics", {"name": TOPIC, "partitions": 1})[0] == 201
    send(server, b"stored before")
    restart(server, section(key_file=key))
    send(server, SECRET)
    server.stop()
    for text, said in (
        ("", r"set \[encryption\] key_file or key_command"),
        (section(key_file=other), r"server key \w{16} wraps the data keys here"),
        (section(key_file=tmp_path / "absent"), r"cannot read credential file .*absent"),
    ):
        configure(server, text)
        with pytest.raises(AssertionError, match="not ready"):
            server.start()
        assert re.search(said, server.stderr())
    verified = talos("log", "verify", "--data", server.data)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    configure(server, section(key_file=key))
    server.start()
    assert received(server) == [b"stored before", SECRET]


def test_a_backup_has_ciphertext_and_wrapped_keys(server: ServerProcess, tmp_path: Path) -> None:
    key, copy = key_file(tmp_path, "key"), tmp_path / "copy"
    configure(server, section(key_file=key))
    server.start()
    assert rest(server, "POST", "/rest/v1/topics", {"name": TOPIC, "partitions": 1})[0] == 201
    send(server, SECRET)
    made = talos("backup", copy, "--data", server.data)
    assert made.returncode == 0, made.stderr
    assert files_with(copy, SECRET) == []
    assert files_with(copy, base64.b64decode(key.read_bytes())) == []
    assert files_with(copy, key.read_bytes()) == []
