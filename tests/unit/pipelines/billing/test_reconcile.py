"""All partitions of a server are reconciled, page by page of their logs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from tests.unit.pipelines.billing.fake_server import FakeServer

from opentalos.cli.commands.bill.bill import bill
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.model.errors import TopicNotExist
from opentalos.pipelines.billing import reconcile as module
from opentalos.pipelines.billing.reconcile import Reconciliation, reconcile_with
from opentalos.pipelines.lake.opening import pipeline_table
from opentalos.pipelines.lake.tables import HOUR_MS, HourTable
from opentalos.pipelines.metering.usage_lake import MinuteUse
from opentalos.pipelines.metering.usage_table import LAYOUT, SCHEMA

HOUR = 1_764_000_000_000 // HOUR_MS * HOUR_MS


def minute(number: int, first: int, end: int) -> MinuteUse:
    return MinuteUse(HOUR + 60_000 * number, end - first, 10 * (end - first), first, end)


CHAIN = [minute(0, 0, 3), minute(1, 3, 13), minute(3, 13, 14)]


def meter(home: Path, logs: dict[str, list[list[MinuteUse]]]) -> None:
    """Fill the table as the pipeline does."""
    rows = [
        {"tenant": "t", "topic": f"u-{name}", "name": name, "partition": number,
         "minute": datetime.fromtimestamp(item.minute_ms / 1000, UTC), "records": item.records,
         "bytes": item.bytes, "first_offset": item.first_offset, "next_offset": item.next_offset}
        for name, chains in logs.items()
        for number, chain in enumerate(chains)
        for item in chain
    ]  # fmt: skip
    HourTable(home, "usage", SCHEMA).replace(HOUR, pa.Table.from_pylist(rows, SCHEMA))


def run(server: FakeServer, home: Path, **options: Any) -> Reconciliation:
    usage = pipeline_table(home, "", LAYOUT)
    return reconcile_with(server, usage, **options)  # type: ignore[arg-type]


def test_pages_are_put_together_minute_by_minute(tmp_path: Path) -> None:
    server = FakeServer({"orders": [CHAIN, CHAIN[:1]], "clicks": [[]]})
    meter(tmp_path, server.logs)
    shown: list[tuple[int, int]] = []
    found = run(server, tmp_path, show=lambda done, total: shown.append((done, total)))
    assert found.difference == found.pending == 0
    assert [partition.minutes_compared for partition in found.partitions] == [3, 1, 0]
    assert server.pages == 3 + 4 + 1 + 1  # where each begins, then their pages
    assert shown == [(0, 3), (1, 3), (2, 3)]


def test_one_byte_in_one_minute_is_found(tmp_path: Path) -> None:
    server = FakeServer({"orders": [CHAIN]})
    meter(tmp_path, {"orders": [[*CHAIN[:2], CHAIN[2]._replace(bytes=11)]]})
    found = run(server, tmp_path)
    assert found.difference == 1
    assert [item.name for item in found.differing] == ["orders"]


def test_deleted_topics_are_checked_by_their_chain(tmp_path: Path) -> None:
    server = FakeServer({"orders": [CHAIN, CHAIN], "clicks": [CHAIN]})
    meter(tmp_path, {**server.logs, "former": [CHAIN[1:]]})
    server.gone.add("orders")
    found = run(server, tmp_path)
    deleted = {
        partition.name: partition.difference_records
        for partition in found.partitions
        if partition.deleted
    }
    assert deleted == {"former": 3, "orders": 0}


def test_only_the_topics_asked_for_are_looked_at(tmp_path: Path) -> None:
    server = FakeServer({"orders": [CHAIN], "clicks": [CHAIN]})
    meter(tmp_path, {"orders": [CHAIN], "former": [CHAIN[1:]]})
    assert run(server, tmp_path, topics=["orders"]).difference == 0
    assert [
        partition.name for partition in run(server, tmp_path, topics=["t/clicks"]).partitions
    ] == ["clicks"]
    assert run(server, tmp_path, topics=["former"]).difference == 3
    with pytest.raises(TopicNotExist, match="topic order does not exist"):
        run(server, tmp_path, topics=["orders", "order"])


def test_waiting_ends_with_the_last_pending_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer({"orders": [CHAIN]})
    meter(tmp_path, {"orders": [CHAIN[:1]]})
    waits = iter(range(1, 4))

    def sleep(_: float) -> None:
        meter(tmp_path, {"orders": [CHAIN[: next(waits)]]})

    monkeypatch.setattr("opentalos.pipelines.billing.reconcile.time.sleep", sleep)
    found = run(server, tmp_path, wait_s=60.0)
    assert (found.pending, found.late, found.difference) == (0, [], 0)
    assert list(waits) == []


def test_what_is_late_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.0)
    found = run(FakeServer({"orders": [CHAIN]}), tmp_path, wait_s=0.01)
    assert found.late == ["orders/0"]
    assert (found.pending, found.difference) == (14, 0)


def command(
    monkeypatch: pytest.MonkeyPatch, server: FakeServer, home: Path, *options: str
) -> Result:
    monkeypatch.setattr(ServerOptions, "rest", lambda _: server)
    argv = ["reconcile", "--home", str(home), *options]
    return CliRunner().invoke(bill, argv, standalone_mode=False)


def test_the_command_says_difference_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeServer({"orders": [CHAIN]})
    meter(tmp_path, server.logs)
    ended = command(monkeypatch, server, tmp_path)
    assert ended.return_value == 0
    assert ended.stdout.splitlines() == [
        "1 partition, 14 records metered, 3 minutes compared with the log, 0 records pending",
        "difference 0",
    ]


def test_the_command_names_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = FakeServer({"orders": [CHAIN], "clicks": [CHAIN]})
    meter(tmp_path, {"orders": [[CHAIN[0], CHAIN[2]]], "clicks": [CHAIN]})
    ended = command(monkeypatch, server, tmp_path)
    assert ended.return_value == 1
    lines = ended.stdout.splitlines()
    assert lines[1].split()[:2] == ["orders", "0"]
    assert "orders/0: offsets 3 to 12 are in no minute" in lines
    assert lines[-1] == "difference 10 records, 100 bytes in 1 partition"
    table = command(monkeypatch, server, tmp_path, "--format", "tsv").stdout.splitlines()
    assert len(table) == 3
    assert table[0].startswith("name\tpartition\trecords")


def test_the_command_fails_if_the_wait_was_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.0)
    server = FakeServer({"orders": [CHAIN]})
    ended = command(monkeypatch, server, tmp_path, "--wait", "0.01")
    assert "14 records pending" in ended.stdout
    assert "not metered after 0.01 s: orders/0" in str(ended.exception)
