"""``talos cluster weights``: the proposal, its report, and the weights that are set."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from opentalos.broker.cluster.control.weight_choice import WeightChoice
from opentalos.cli.commands.cluster.weights import weights
from opentalos.cli.connection.server_options import ServerOptions
from opentalos.gateway.rest.cluster.weight_proposals import _PROPOSAL, _shown
from opentalos.gateway.rest.routing.schema import check
from opentalos.model.errors import BadRequest
from opentalos.model.message import PartitionKey
from opentalos.placement.plan import plan
from opentalos.placement.values import Candidate, Policy, Situation

HEAD = "topic,partition,day,bytes\n"
SECTORS = [2] * 32


def written(folder: Path, text: str) -> Path:
    path = folder / "traffic.csv"
    path.write_text(text)
    return path


class FakeServer:
    """Proposes for three servers, one of them restarting, beside one that is being drained."""

    def __init__(self) -> None:
        self.put: dict[str, Any] | None = None
        self.topics = {f"u{n}": 10 for n in range(10)}

    def __call__(self, method: str, path: str, document: Any = None) -> Any:
        if method == "PUT":
            assert path == "cluster/weights"
            self.put = document["servers"]
            return None
        assert (method, path) == ("POST", "cluster/weights/proposals")
        days = [
            {
                PartitionKey(uuid, number): count
                for uuid, counts in day.items()
                for number, count in enumerate(counts)
            }
            for day in document["days"]
        ]
        placed, kept = dict.fromkeys("abc", SECTORS), {"d": SECTORS}
        owners = self.settled().owners
        choice = WeightChoice().propose(days, placed, kept, owners, document["budget"])
        shown = _shown(asyncio.run(choice))
        check(_PROPOSAL, json.loads(json.dumps(shown)), "the answer")
        return shown

    def settled(self) -> Situation:
        """The cluster as it is published."""
        found = Situation(
            now_s=100.0,
            candidates={name: Candidate(name=name, alive=True, since_s=0.0) for name in "abc"},
            partitions=[
                PartitionKey(uuid, number)
                for uuid, count in self.topics.items()
                for number in range(count)
            ],
            owners={},
            weights=dict.fromkeys("abc", SECTORS),
        )
        now = plan(found, Policy())
        return replace(found, owners=now.owners, ring=now.ring)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    fake = FakeServer()
    monkeypatch.setattr(ServerOptions, "rest", lambda _self: fake)
    return fake


def uneven(folder: Path) -> Path:
    rows = [f"u{n // 10},{n % 10},1,{10_000 // (n + 1)}" for n in range(100)]
    return written(folder, HEAD + "\n".join(rows) + "\n")


def test_weights_are_shown_and_set(tmp_path: Path, server: FakeServer) -> None:
    done = CliRunner().invoke(weights, [str(uneven(tmp_path)), "--budget", "10"])
    assert done.exit_code == 0, done.output
    assert "% lower; " in done.output
    assert server.put is not None
    assert sorted(server.put) == ["a", "b", "c", "d"]  # one that joins gets the configured number
    assert server.put["d"] == SECTORS
    moved = moved_by(server)
    assert 0 < moved <= 10
    assert f"{moved} partitions to move" in done.output


def test_partitions_missing_in_the_file_count_in_the_budget(
    tmp_path: Path, server: FakeServer
) -> None:
    server.topics = {f"u{n}": 10 for n in range(60)}  # the file names 100 of 600
    done = CliRunner().invoke(weights, [str(uneven(tmp_path)), "--budget", "2"])
    assert done.exit_code == 0, done.output
    assert "at most 12 of 600 partitions may move" in done.output
    moved = moved_by(server)
    assert 2 < moved <= 12
    assert f"{moved} partitions to move" in done.output


def test_partitions_of_deleted_topics_do_not_count(tmp_path: Path, server: FakeServer) -> None:
    server.topics = {"u0": 10}  # what the file names of u1 to u9 was deleted
    done = CliRunner().invoke(weights, [str(uneven(tmp_path)), "--budget", "20"])
    assert "at most 2 of 10 partitions may move" in done.output
    assert moved_by(server) <= 2
    server.topics, server.put = {"u99": 10}, None
    done = CliRunner().invoke(weights, [str(uneven(tmp_path))])
    assert isinstance(done.exception, BadRequest)
    assert "this cluster does not have" in str(done.exception)
    assert server.put is None


def moved_by(server: FakeServer) -> int:
    """Partitions of the cluster that the new weights move."""
    assert server.put is not None
    before = server.settled()
    after = plan(
        replace(before, weights={name: server.put[name] for name in "abc"}),
        Policy(moves_at_once=10_000),
    )
    return len(after.moved_from)


def test_a_dry_run_sets_nothing(tmp_path: Path, server: FakeServer) -> None:
    done = CliRunner().invoke(weights, [str(uneven(tmp_path)), "--dry-run"])
    assert "nothing was changed" in done.output
    assert server.put is None


def test_json_has_a_line_for_each_server(tmp_path: Path, server: FakeServer) -> None:
    arguments = [str(uneven(tmp_path)), "--format", "json", "--dry-run"]
    rows = [json.loads(line) for line in CliRunner().invoke(weights, arguments).stdout.splitlines()]
    assert [row["server"] for row in rows] == ["a", "b", "c"]
    assert sum(row["share_after"] for row in rows) == pytest.approx(1)
    assert server.put is None


def test_a_file_without_traffic_is_rejected(tmp_path: Path, server: FakeServer) -> None:
    done = CliRunner().invoke(weights, [str(written(tmp_path, HEAD + "u,0,1,0\n"))])
    assert isinstance(done.exception, BadRequest)
    assert server.put is None
