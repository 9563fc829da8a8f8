"""The command shows series and explains groups of a real server."""

from pathlib import Path
from typing import Any

from tests.e2e.cli.conftest import Commands
from tests.server_process import ServerProcess
from tests.waiting import eventually


def rows_of(talos: Commands, *command: object) -> list[dict[str, Any]]:
    return talos(*command, "--every", "1", "--format", "json").rows


def amount(rows: list[dict[str, Any]]) -> int:
    return sum(row["messages_in"] or 0 for row in rows)


def test_series_and_explanations(tmp_path: Path) -> None:
    data, home = tmp_path / "data", tmp_path / "home"
    data.mkdir()
    home.mkdir()
    server = ServerProcess(data, "[measuring]\nstep_s = 1.0\n").start()
    try:
        talos = Commands(home, server)
        talos("topic", "create", "orders", "--partitions", 2)
        talos("produce", "orders", "--partition", 1, stdin="0\n1\n2\n")
        command = ("series", "messages_in", "--topic", "orders", "--by", "partition")
        eventually(
            "the series count 3 messages",
            lambda: amount(rows_of(talos, *command)) == 3,
            state=lambda: rows_of(talos, *command),
        )
        rows = rows_of(talos, *command)
        assert {row["partition"] for row in rows} == {"1"}
        shown = talos(*command, "--every", "1")
        assert "largest 3" in shown.out
        assert "█" in shown.out
        assert "measured since" in shown.err
        assert talos("series", "put_p99", "--format", "tsv").out.startswith(
            "time_s\tserver\tput_p99"
        )
        refused = talos.fails("series", "errors", "--by", "topic")
        assert "cannot be split by topic" in refused
        talos("consume", "orders", "--group", "g", "--count", 2)
        said = talos("group", "explain", "orders", "g").out
        assert said.startswith("stuck: lag 1, 0 workers\nerror: nobody reads with this group")
        reasons = talos("group", "explain", "orders", "g", "--format", "json").rows
        assert [reason["code"] for reason in reasons] == ["no_workers"]
        talos("consume", "orders", "--group", "g", "--count", 1)
        assert talos("group", "explain", "orders", "g").out.startswith("caught up: lag 0")
    finally:
        server.stop()
