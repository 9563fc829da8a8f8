"""Runs one seed and checks its history.

    report = run_seed(7)
    assert report.ok, report              # names the anomalies and the command that replays them

``python -m opentalos.testing 7 --trace`` replays the same run and prints its history.
"""

import gc
import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from opentalos.testing.simulation.checks.checker import Anomaly, check
from opentalos.testing.simulation.clients.cluster_workload import cluster_workload
from opentalos.testing.simulation.clients.lease_clients import lease_workload
from opentalos.testing.simulation.clients.producers.batch_producers import batch_workload
from opentalos.testing.simulation.clients.producers.sdk_producers import sdk_workload
from opentalos.testing.simulation.clients.workload import standard_workload
from opentalos.testing.simulation.cluster.world import ClusterConfig, ClusterWorld
from opentalos.testing.simulation.history import History, dump
from opentalos.testing.simulation.world.limits import with_journal, with_late_segments
from opentalos.testing.simulation.world.storage_worlds import STORAGE_WORLDS
from opentalos.testing.simulation.world.world import World, WorldConfig

__all__ = ["ClusterConfig", "Report", "WorldConfig", "run_cluster_seed", "run_seed"]

JOURNAL_OPTION = "--journal "  # of the command that replays a seed


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one seed."""

    seed: int
    anomalies: list[Anomaly]
    history: History = field(repr=False)
    virtual_s: float = 0.0
    option: str = ""  # of the command that replays the seed

    @property
    def ok(self) -> bool:
        """No promise was broken."""
        return not self.anomalies

    @property
    def names(self) -> set[str]:
        """Names of the anomalies."""
        return {anomaly.name for anomaly in self.anomalies}

    def digest(self) -> str:
        """A hash of the history, equal for equal histories."""
        lines = io.StringIO()
        dump(self.history, lines)
        return hashlib.sha256(lines.getvalue().encode()).hexdigest()

    def __str__(self) -> str:
        if self.ok:
            return f"seed {self.seed}: {len(self.history.operations)} operations, no anomalies"
        shown = "\n  ".join(map(str, self.anomalies))
        count = len(self.anomalies)
        return (
            f"seed {self.seed}: {count} {'anomaly' if count == 1 else 'anomalies'}\n  {shown}\n"
            f"replay: python -m opentalos.testing {self.option}{self.seed} --trace"
        )


def run_seed(seed: int, config: WorldConfig | None = None) -> Report:
    """Run the standard workload in the world that the seed draws, and check its history."""
    with _no_collection():
        config = config or WorldConfig()
        if config.fair_s is None:  # few slots are shared by tenants whose files hang
            config = replace(config, log=with_late_segments(config.log, seed))
        world = World(seed, config)
        history = world.run(standard_workload)
        option = JOURNAL_OPTION if world.config.log.journaled else ""
        return Report(seed, check(history), history, world.loop.time(), option)


def run_storage_seed(seed: int, world: str, *, journal: bool = False) -> Report:
    """The same in one of the storage worlds."""
    config = STORAGE_WORLDS[world]
    if journal:
        config = replace(config, log=with_journal(config.log))
    report = run_seed(seed, config)
    return replace(report, option=f"--world {world} {report.option}")


def run_cluster_seed(seed: int, config: ClusterConfig | None = None) -> Report:
    """The same for a cluster of several servers."""
    with _no_collection():
        config = config or ClusterConfig()
        world = ClusterWorld(seed, replace(config, log=with_late_segments(config.log, seed)))
        history = world.play(cluster_workload)
        option = JOURNAL_OPTION if world.config.log.journaled else ""
        return Report(seed, check(history), history, world.loop.time(), f"--cluster {option}")


def run_batch_seed(seed: int, config: WorldConfig | None = None) -> Report:
    """Run producers that repeat whole batches, as Spark's tasks do, and check their history."""
    world = World(seed, config)
    history = world.run(batch_workload)
    return Report(seed, check(history), history, world.loop.time())


def run_sdk_seed(seed: int, config: WorldConfig | None = None) -> Report:
    """Run producers of the SDK, and check their history."""
    with _no_collection():
        world = World(seed, config)
        history = world.run(sdk_workload)
        return Report(seed, check(history), history, world.loop.time())


def run_lease_seed(seed: int, config: WorldConfig | None = None) -> Report:
    """Run holders of a lease that write to one table, and check their history."""
    with _no_collection():
        world = World(seed, config)
        history = world.run(lease_workload)
        return Report(seed, check(history), history, world.loop.time())


@contextmanager
def _no_collection() -> Iterator[None]:
    # A run is short, and collecting the cycles of crashed tasks would change its order.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
