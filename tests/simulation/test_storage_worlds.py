"""Storage worlds from a seed: rot, older state, wrong clocks, exhaustion, poison, small bounds.

A failure prints its seed and the command that replays it.
"""

from collections.abc import Hashable

import pytest
from tests import tiers

from opentalos.log.context import LogContext
from opentalos.log.partition.writer import PartitionWriter
from opentalos.log.scheduling.lanes import CommitLanes
from opentalos.log.segment.producers import ProducerTable
from opentalos.log.segment.writer import OpenSegment
from opentalos.testing.simulation.cluster.storage_worlds import CLUSTER_WORLDS
from opentalos.testing.simulation.seed_run import run_cluster_seed, run_storage_seed
from opentalos.testing.simulation.world.storage_worlds import BOUNDS

# Worlds whose promises the product keeps, and the seeds of each.
KEPT = {
    "rot": 10,
    "durability": 10,
    "poison": 6,
    "clocks": 10,
    "exhaustion": 10,
    "busy": 8,
    "entries": 8,
    "late": 10,
    "bounds": 8,
    "hanging": 5,
    "shared": 8,
    "replicas": 8,
    "records": 8,
    "older": 12,
    "older-unmarked": 12,
    "shorter": 12,
    "shorter-unmarked": 12,
    "record-rot": 12,
}


@pytest.mark.parametrize("world", KEPT)
def test_no_promise_is_broken_in_a_storage_world(world: str) -> None:
    for seed in range(tiers.size(3, KEPT[world])):  # the third one has a journal
        report = run_storage_seed(seed, world, journal=seed % 3 == 2)
        assert report.ok, str(report)


def test_no_promise_is_broken_while_coordination_is_away_for_long() -> None:
    for seed in range(tiers.size(2, 6)):
        report = run_cluster_seed(seed, CLUSTER_WORLDS["outage"])
        assert report.ok, str(report)


def test_no_promise_is_broken_where_partitions_with_records_move() -> None:
    for seed in range(tiers.size(2, 6)):
        report = run_cluster_seed(seed, CLUSTER_WORLDS["moved-records"])
        assert report.ok, str(report)


def test_no_promise_is_broken_where_a_coordinator_assigns_partitions() -> None:
    for seed in range(tiers.size(2, 6)):
        report = run_cluster_seed(seed, CLUSTER_WORLDS["assigned-members"])
        assert report.ok, str(report)


def test_no_promise_is_broken_where_coordination_comes_back_older() -> None:
    for seed in range(tiers.size(2, 8)):
        report = run_cluster_seed(seed, CLUSTER_WORLDS["older-coordination"])
        assert report.ok, str(report)


def test_small_bounds_are_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that no run reaches is a bound that nobody has tried."""
    reached: set[str] = set()
    note, opened, look = ProducerTable.note, LogContext.note_opened, CommitLanes._look

    def noted(self: ProducerTable, *what: object) -> None:
        note(self, *what)  # type: ignore[arg-type]  # whatever it takes
        if any(share.forgotten for _, share in self.shares()):
            reached.add("producers")

    def note_opened(self: LogContext, partition: Hashable) -> None:
        opened(self, partition)
        if len(self.open_partitions) >= BOUNDS.log.segments_open_max:
            reached.add("open segments")

    def looked(self: CommitLanes) -> None:
        look(self)
        if self.count() >= BOUNDS.log.lanes_max:
            reached.add("lanes")

    monkeypatch.setattr(ProducerTable, "note", noted)
    monkeypatch.setattr(LogContext, "note_opened", note_opened)
    monkeypatch.setattr(CommitLanes, "_look", looked)
    assert BOUNDS.bounds is not None
    for seed in range(3):
        run_storage_seed(seed, "bounds")
    assert reached == {"producers", "open segments", "lanes"}


def test_files_short_of_replicas_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    roll, left = PartitionWriter._roll, []

    async def rolled(self: PartitionWriter, old: OpenSegment, in_job: bool) -> None:
        if old.file.thin:
            left.append(old.view.path)
        await roll(self, old, in_job)

    monkeypatch.setattr(PartitionWriter, "_roll", rolled)
    run_storage_seed(0, "replicas")
    assert len(set(left)) > 5


def test_storage_worlds_have_their_troubles() -> None:
    """Each kind of trouble happens in its world."""
    notes = {
        "rot": {"rot", "process-crash"},
        "clocks": {"clock-jump"},
        "exhaustion": {"exhausted"},
        "entries": {"power-loss"},
        "hanging": {"tenant-fails"},
        "older": {"store-older", "older"},
        "shorter": {"file-shorter"},
        "record-rot": {"record-rot", "rot", "record-repaired"},
    }
    for world, kinds in notes.items():
        history = run_storage_seed(1, world).history
        assert kinds <= {note.kind for note in history.notes}, world
    changes = run_storage_seed(1, "durability").history.of("alter")
    assert {each.args["durability"] for each in changes if "durability" in each.args} == {
        "synced",
        "flushed",
    }


def test_a_seed_of_a_storage_world_repeats_itself_exactly() -> None:
    for world in ("rot", "busy"):
        assert run_storage_seed(3, world).digest() == run_storage_seed(3, world).digest()
