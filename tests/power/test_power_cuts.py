"""Power cuts of real server processes with their real files, threads and SQLite databases.

A preloaded library (recorder.c) records each write, truncation, sync and change of names below the
data directory, in order. The process is killed at a random moment under load. disk.py then builds a
directory that a power cut may leave at that moment: everything that was synced, and of the rest any
part. A server starts on that directory, the load continues, and in the end the history checker
judges all of it: nothing acknowledged may be missing, but for the end of ``flushed`` topics.

``make test`` cuts once, ``make test-all`` five times and ``make faults`` a hundred times, each once
more without a journal (OPENTALOS_POWER_CUTS). OPENTALOS_POWER_SEED repeats the draws of a failed
run, not its timing.

The mutants prove that a missing sync would be seen: the same recording with the syncs of one kind
taken for none must break a promise by name.
"""

import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.power.disk import Ignored, NothingKept, nothing_ignored, write_directory
from tests.power.journal import Kind, Record
from tests.power.power_load import PowerLoad
from tests.power.power_server import Moment, PowerServer
from tests.quiet_load import PARTITIONS_MAX, QuietLoad
from tests.server_process import ServerProcess
from tests.waiting import elapse

from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.history import History

CUTS = int(os.environ.get("OPENTALOS_POWER_CUTS", "5"))
SEED = int(os.environ.get("OPENTALOS_POWER_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
LOAD_S = (0.1, 0.8)  # between a restart and the next cut
pytestmark = pytest.mark.timeout(900 + 15 * CUTS)  # of ``make faults``: a hundred cuts


# Small, so that it continues, is trimmed and makes segments be written out all the time.
JOURNAL = f'{PARTITIONS_MAX}[log]\njournal = "on"\njournal_bytes_max = 65_536\n'
NO_JOURNAL = f'{PARTITIONS_MAX}[log]\njournal = "off"\n'
NO_JOURNAL_EVERY = 3  # th process
QUIET = 1_000 if CUTS >= 50 else 200  # partitions
QUIET_JUDGED = 10  # each so many-th of them, where a mutant has to be seen


def continues(record: Record, path: str) -> bool:
    """The next file of a journal is made, which NEXT names afterwards."""
    return record.kind is Kind.CREATE and path.endswith(".jnl")


def trims(record: Record, path: str) -> bool:
    """A file of a journal is deleted."""
    return record.kind is Kind.UNLINK and path.endswith(".jnl")


def writes_out(record: Record, path: str) -> bool:
    """A segment gets what its journal had alone, or a large group."""
    return record.kind is Kind.WRITE and record.position > 0 and path.endswith(".log")


def commits_frame(record: Record, path: str) -> bool:
    """A frame is written, and perhaps NEXT."""
    return record.kind is Kind.WRITE and path.endswith(".jnl")


MOMENTS: tuple[Moment, ...] = (continues, trims, writes_out, commits_frame)


@dataclass
class Run:
    """Load under cuts, and the recording of the last process, which was killed."""

    server: PowerServer
    load: PowerLoad | None
    quiet: QuietLoad
    folder: Path

    def acknowledged(self) -> int:
        """Puts."""
        return sum(self.quiet.answered) + (self.load.acknowledged() if self.load else 0)

    def anomalies(
        self, name: str, draw: random.Random, ignored: Ignored, every: int = 1
    ) -> list[str]:
        """What the checker says after the last cut; of each ``every``-th quiet partition.

        With ignored syncs one database is older than the other, which the server refuses: then as
        an operator who deletes ``run.json`` accepts it.
        """
        folder = self.folder / name
        (folder / "data").mkdir(parents=True)
        left = self.server.replayed(ignored).after_a_cut(draw)
        if ignored is not nothing_ignored:
            left.pop("data/run.json", None)
        write_directory(folder, left)
        server = ServerProcess(folder).start()
        final, of_quiet = folder / "final.jsonl", folder / "final-quiet.jsonl"
        paths = [of_quiet, *self.quiet.folder.glob("*.jsonl")]
        try:
            self.quiet.read_all(server, of_quiet, every)
            if self.load is not None:
                self.load.read_all(server, final)
                paths += self.load.paths(final)
        finally:
            server.stop()
        return [str(each) for each in check(History.load(sorted(paths)))]


def cut(run: Run, draw: random.Random, moment: Moment | None) -> None:
    """Cut the power at this moment, or at any, and start again."""
    elapse("the cut comes at a random time", draw.uniform(*LOAD_S))
    if moment is not None:
        run.server.wait_moment(moment)
    if run.load is not None:
        run.load.note_power_loss()
    run.server.cut_power(draw)
    run.server.start()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    folder = tmp_path_factory.mktemp("power")
    draw = random.Random(SEED)
    server = PowerServer(folder / "server", settings=JOURNAL).start()
    load = PowerLoad(server, folder / "load")
    quiet = QuietLoad([server], folder / "quiet", QUIET)
    run = Run(server, load, quiet, folder)
    moments = list(MOMENTS)
    try:
        load.start()
        quiet.start()
        for number in range(1, CUTS + 1):
            journal = server.settings is JOURNAL
            without = number % NO_JOURNAL_EVERY == 0 and number < CUTS
            server.settings = NO_JOURNAL if without else JOURNAL
            moment = draw.choice((None, *MOMENTS)) if not moments else moments.pop(0)
            cut(run, draw, moment if journal else None)
            load.wait_progress()
            quiet.wait_progress()
        elapse("the cut comes at a random time", draw.uniform(*LOAD_S))
        load.wait_commit()  # of a checkpoint, for the mutant that loses them
        server.kill()
        load.note_power_loss()
        load.stop()
        quiet.stop()
        yield run
    except BaseException:
        sys.stdout.write(f"\nOPENTALOS_POWER_SEED={SEED}; the server said\n{server.stderr()}\n")
        raise
    finally:
        load.close()
        quiet.stop()
        server.kill()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """A short one of a server without a journal."""
    folder = tmp_path_factory.mktemp("plain")
    server = PowerServer(folder / "server", settings=NO_JOURNAL).start()
    quiet = QuietLoad([server], folder / "quiet", 2 * QUIET_JUDGED)
    try:
        quiet.start()
        server.kill()
        quiet.stop()
        yield Run(server, None, quiet, folder)
    finally:
        quiet.stop()
        server.kill()


def test_power_cuts_lose_nothing_that_was_acknowledged(run: Run) -> None:
    anomalies = run.anomalies("judged", random.Random(SEED), nothing_ignored)
    kinds = {kind.name.lower(): count for kind, count in sorted(run.server.calls.items())}
    sys.stdout.write(
        f"\n| {CUTS + 1} power cuts (seed {SEED}): {run.acknowledged()} puts acknowledged, of them "
        f"{sum(run.quiet.answered)} to {QUIET} quiet partitions; records: {kinds}\n"
    )
    assert anomalies == []
    assert run.acknowledged() > 10 * CUTS + QUIET, "hardly any load"


def test_the_least_that_a_power_cut_leaves_is_enough(run: Run) -> None:
    assert run.anomalies("least", NothingKept(), nothing_ignored) == []


def writes_of_journals(kind: Kind, path: str) -> bool:
    """RWF_DSYNC and fdatasync of journals."""
    return path.endswith(".jnl")


def entries_of_journals(kind: Kind, path: str) -> bool:
    """fsync of the directories of journals."""
    return path.startswith("data/log/journal") and "." not in path


def writes_of_segments(kind: Kind, path: str) -> bool:
    """RWF_DSYNC and fdatasync of segments."""
    return path.endswith(".log")


def entries_of_segments(kind: Kind, path: str) -> bool:
    """fsync of the directories of segments."""
    return path.startswith("data/log") and "." not in path and "/journal" not in path


def commits_of_records(kind: Kind, path: str) -> bool:
    """SQLite's sync of its log, for topics and manifests."""
    return path.startswith("data/meta.sqlite")


def commits_of_rows(kind: Kind, path: str) -> bool:
    """SQLite's sync of its log, for checkpoints."""
    return path.startswith("data/rows.sqlite")


def check_seen(run: Run, mutant: Ignored) -> None:
    name = mutant.__name__
    anomalies = run.anomalies(name, NothingKept(), mutant, QUIET_JUDGED)
    assert {each.split(":")[0] for each in anomalies}, f"{name}: nobody noticed"
    sys.stdout.write(f"\n| power mutant {name}: {anomalies[0][:100]}\n")


@pytest.mark.parametrize(
    "mutant",
    [
        writes_of_journals,
        entries_of_journals,
        writes_of_segments,
        entries_of_segments,
        commits_of_records,
        commits_of_rows,
    ],
)
def test_syncs_that_do_nothing_are_seen_by_name(run: Run, mutant: Ignored) -> None:
    check_seen(run, mutant)


def test_so_are_those_of_segments_without_a_journal(plain: Run) -> None:
    assert plain.anomalies("least", NothingKept(), nothing_ignored) == []
    check_seen(plain, writes_of_segments)
