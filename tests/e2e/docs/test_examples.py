"""Every example runs, as its own text says, against a real server."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import completed

from opentalos.model.limits import GroupLimits
from opentalos.sdk import SimpleConsumer
from opentalos.sdk.tables import (
    DataType,
    KeyPart,
    StreamSpec,
    TableAdmin,
    TableSchema,
    TalosTable,
)
from opentalos.server.config import Config
from opentalos.testing import EmbeddedServer

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"
# Run elsewhere: by the demo, by tests of the plugin, of the compatibility, of clusters, of Spark.
ELSEWHERE = {
    *("tour.py", "official_reader.py", "pytest_example.py"),
    *("cluster_traffic.py", "spark_per_minute.py", "first_look.ipynb"),
}

_seen: set[str] = set()


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    # A worker that has left counts for the group's balance until its lease ends.
    with EmbeddedServer(config=Config(group=GroupLimits(lease_s=10.0))) as running:
        yield running


def run(server: EmbeddedServer, name: str, *arguments: str) -> list[str]:
    """The lines an example writes."""
    _seen.add(name)
    command = [str(EXAMPLES / name), *arguments]
    if name.endswith(".py"):
        command = [sys.executable, "-W", "error", *command]
    key = f"{server.key_id}:{server.secret}"
    environment = {**os.environ, "TALOS_URL": server.url, "TALOS_KEY": key, "NO_PROXY": "*"}
    done = completed(command, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def messages(server: EmbeddedServer, topic: str) -> list[bytes]:
    with SimpleConsumer(server.client_config(), topic) as consumer:
        return [
            record.data
            for partition, offsets in consumer.offsets().items()
            if offsets.next
            for record in consumer.fetch(partition, 0)
        ]


def test_produce_and_consume_in_a_group(server: EmbeddedServer) -> None:
    assert run(server, "produce.py", "orders", "200") == ["{'stored': 200}"]
    assert len(messages(server, "orders")) == 200
    lines = run(server, "consume_group.py", "orders", "readers", "150")
    assert lines[0] == "assigned 0 1 2 3"
    assert lines[-1] == "read 150"
    read = [line for line in lines if "order" in line]
    rest = run(server, "consume_group.py", "orders", "readers", "50")
    assert rest[-1] == "read 50"
    assert len({*read, *(line for line in rest if "order" in line)}) == 200


def test_an_asyncio_service_answers_each_order(server: EmbeddedServer) -> None:
    run(server, "produce.py", "requests", "100")
    server.create_topic("invoices", partitions=2)
    assert run(server, "async_service.py", "requests", "invoices", "100") == ["invoices 100"]
    assert len(set(messages(server, "invoices"))) == 100


def test_arrow_tables_go_in_and_come_out(server: EmbeddedServer) -> None:
    size = sum(len(f"reading {number}") for number in range(5_000))
    assert run(server, "arrow_batches.py", "readings", "5000") == [f"rows 5000 bytes {size}"]


def test_a_topic_is_followed_by_curl(server: EmbeddedServer) -> None:
    lines = run(server, "follow_rest.sh", "clicks", "3")
    assert len([line for line in lines if '"base_offset"' in line]) == 3
    events = lines[lines.index("following clicks") + 1 :]
    assert len(events) == 3
    assert all('"number"' in line for line in events)


def test_sums_follow_a_table(server: EmbeddedServer) -> None:
    server.create_topic("account-changes", partitions=2)
    schema = TableSchema(
        primary=(KeyPart("id"),),
        attributes={"id": DataType.STRING, "city": DataType.STRING, "balance": DataType.INT64},
        streams={"account-changes": StreamSpec()},
    )
    with TableAdmin(server.client_config()) as admin:
        admin.create("accounts", schema)
    with TalosTable(server.client_config(), "accounts") as accounts:
        for number in range(20):
            city = ("Rome", "Oslo")[number % 2]
            accounts.put({"id": f"a{number}", "city": city, "balance": 10})
        accounts.increment({"id": "a0"}, {"balance": 5})
        accounts.put({"id": "a1", "city": "Rome"})
        accounts.remove({"id": "a2"})
    arguments = ("accounts", "account-changes", "sums", "23")
    assert run(server, "follow_table.py", *arguments) == ["Oslo 90", "Rome 105"]


@pytest.mark.parametrize(
    "name",
    [
        "produce.py", "consume_group.py", "async_service.py", "arrow_batches.py",
        "follow_table.py", "follow_rest.sh", "quickstart/quickstart.sh",
    ],
)  # fmt: skip
def test_a_program_without_its_arguments_says_which_it_takes(name: str) -> None:
    command = [str(EXAMPLES / name)]
    if name.endswith(".py"):
        command = [sys.executable, *command]
    done = completed(command)
    assert done.returncode != 0
    assert f"{Path(name).name} " in done.stderr.partition("usage:")[2]
    assert "Traceback" not in done.stderr


def test_no_example_is_forgotten() -> None:
    """Last in this file: the ones above noted what they ran."""
    there = {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    assert there == _seen | ELSEWHERE
