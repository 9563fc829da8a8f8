"""Power cuts of real server processes with their real files, threads and SQLite databases.

A preloaded library (recorder.c) records each write, truncation, sync and change of names below the
data directory, in order. The process is killed at a random moment under load. disk.py then builds a
directory that a power cut may leave at that moment: everything that was synced, and of the rest any
part. A server starts on that directory, the load continues, and in the end the history checker
judges all of it: nothing acknowledged may be missing, but for the end of ``flushed`` topics.

``make test`` cuts five times and one more, ``make faults`` a hundred times
(OPENTALOS_POWER_CUTS). OPENTALOS_POWER_SEED repeats the draws of a failed run, not its timing.

The mutants prove that a missing sync would be seen: the same recording with the syncs of one kind
taken for none must break a promise by name.
"""

import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.power.disk import Ignored, NothingKept, nothing_ignored, write_directory
from tests.power.journal import Kind
from tests.power.power_load import PowerLoad
from tests.power.power_server import READY_TIMEOUT_S, PowerServer
from tests.server_process import ServerProcess

from opentalos.testing.simulation.checks.checker import check

CUTS = int(os.environ.get("OPENTALOS_POWER_CUTS", "5"))
SEED = int(os.environ.get("OPENTALOS_POWER_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
LOAD_S = (0.1, 0.8)  # between a restart and the next cut
pytestmark = pytest.mark.timeout(240 + 15 * CUTS)


@dataclass
class Run:
    """Load under cuts, and the recording of the last process, which was killed."""

    server: PowerServer
    load: PowerLoad
    folder: Path

    def anomalies(self, name: str, draw: random.Random, ignored: Ignored) -> list[str]:
        """What the checker says after the last cut."""
        folder = self.folder / name
        (folder / "data").mkdir(parents=True)
        left = self.server.replayed(ignored).after_a_cut(draw)
        write_directory(folder, left)
        server = ServerProcess(folder, ready_timeout_s=READY_TIMEOUT_S).start()
        try:
            self.load.read_all(server, folder / "final.jsonl")
        finally:
            server.stop()
        return [str(each) for each in check(self.load.history(folder / "final.jsonl"))]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("power")
    draw = random.Random(SEED)
    server = PowerServer(folder / "server").start()
    load = PowerLoad(server, folder / "load")
    try:
        load.start()
        for _ in range(CUTS):
            time.sleep(draw.uniform(*LOAD_S))
            load.note_power_loss()
            server.cut_power(draw)
            server.start()
            load.wait_progress()
        time.sleep(draw.uniform(*LOAD_S))
        server.kill()
        load.note_power_loss()
        load.stop()
        yield Run(server, load, folder)
    except BaseException:
        sys.stdout.write(f"\nOPENTALOS_POWER_SEED={SEED}; the server said\n{server.stderr()}\n")
        raise
    finally:
        load.close()
        server.kill()


def test_power_cuts_lose_nothing_that_was_acknowledged(run: Run) -> None:
    anomalies = run.anomalies("judged", random.Random(SEED), nothing_ignored)
    kinds = {kind.name.lower(): count for kind, count in sorted(run.server.calls.items())}
    sys.stdout.write(
        f"\n| {CUTS + 1} power cuts (seed {SEED}): {run.load.acknowledged()} puts acknowledged, "
        f"{len(run.load.made())} topics made; records: {kinds}\n"
    )
    assert anomalies == []
    assert run.load.acknowledged() > 10 * CUTS, "hardly any load"


def test_the_least_that_a_power_cut_leaves_is_enough(run: Run) -> None:
    assert run.anomalies("least", NothingKept(), nothing_ignored) == []


def writes_of_segments(kind: Kind, path: str) -> bool:
    """RWF_DSYNC and fdatasync of segments."""
    return path.endswith(".log")


def entries_of_segments(kind: Kind, path: str) -> bool:
    """fsync of the directories of segments."""
    return path.startswith("data/log") and "." not in path


def commits_of_records(kind: Kind, path: str) -> bool:
    """SQLite's sync of its log, for topics and manifests."""
    return path.startswith("data/meta.sqlite")


def commits_of_rows(kind: Kind, path: str) -> bool:
    """SQLite's sync of its log, for checkpoints."""
    return path.startswith("data/rows.sqlite")


@pytest.mark.parametrize(
    "mutant", [writes_of_segments, entries_of_segments, commits_of_records, commits_of_rows]
)
def test_syncs_that_do_nothing_are_seen_by_name(run: Run, mutant: Ignored) -> None:
    name = mutant.__name__
    anomalies = run.anomalies(name, NothingKept(), mutant)
    assert {each.split(":")[0] for each in anomalies}, f"{name}: nobody noticed"
    sys.stdout.write(f"\n| power mutant {name}: {anomalies[0][:100]}\n")
