"""Tools for tests of the project and of its users: real servers, simulation, history checker.

From a small test to a whole cluster:

- ``EmbeddedServer`` is a real server inside a ``with`` block, and ``pytest_plugin`` has fixtures
  that give it to tests.
- ``SimulationLoop().run(coroutine)`` runs asyncio code in virtual time.
- ``FaultyFileStore``, ``FaultyMetaStore`` and ``FaultyRowStore`` simulate storage that fails, on a
  ``SimulatedDisk`` that outlives its servers.
- ``World(seed).run(scenario)`` runs whole servers and returns their history; ``check(history)``
  names every broken promise. ``run_seed(seed)`` does both with the standard workload, and
  ``python -m opentalos.testing SEED --trace`` replays it.
- ``ClusterWorld`` and ``run_cluster_seed`` do the same for several servers with a network between
  them; ``--cluster`` replays those seeds.
- ``Kill`` and ``KillPoint`` kill a server at a named storage call of a table's life.

``Recorder`` and ``check`` also judge real processes: each writes its history as JSON lines. The
names in ``__all__`` are the public API; everything below ``simulation`` may change.

    from opentalos.testing import run_seed

    @pytest.mark.parametrize("seed", range(20))
    def test_my_change_keeps_every_promise(seed: int) -> None:
        report = run_seed(seed)
        assert report.ok, report
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentalos.testing.embedded import EmbeddedServer
    from opentalos.testing.simulation.checks.checker import ANOMALIES, Anomaly, check
    from opentalos.testing.simulation.cluster.world import ClusterConfig, ClusterWorld
    from opentalos.testing.simulation.history import History, Recorder, dump
    from opentalos.testing.simulation.loop import (
        SimulatedProcess,
        SimulationDeadlock,
        SimulationLoop,
    )
    from opentalos.testing.simulation.seed_run import Report, run_cluster_seed, run_seed
    from opentalos.testing.simulation.stores.disk import SimulatedDisk
    from opentalos.testing.simulation.stores.faults import (
        ClusterFaults,
        FileFaults,
        MetaFaults,
        RowFaults,
        WorldFaults,
    )
    from opentalos.testing.simulation.stores.faulty_files import FaultyFileStore
    from opentalos.testing.simulation.stores.faulty_meta import FaultyMetaStore
    from opentalos.testing.simulation.stores.faulty_rows import FaultyRowStore
    from opentalos.testing.simulation.stores.kill_points import KillPoint
    from opentalos.testing.simulation.stores.kills import Kill
    from opentalos.testing.simulation.world.world import World, WorldConfig

# Imported at first use: pytest loads this package in every run, for its plugin.
_MODULES = {
    "simulation.checks.checker": ("ANOMALIES", "Anomaly", "check"),
    "simulation.cluster.world": ("ClusterConfig", "ClusterWorld"),
    "embedded": ("EmbeddedServer",),
    "simulation.stores.faults": (
        "ClusterFaults",
        "FileFaults",
        "MetaFaults",
        "RowFaults",
        "WorldFaults",
    ),
    "simulation.stores.faulty_files": ("FaultyFileStore",),
    "simulation.stores.faulty_meta": ("FaultyMetaStore",),
    "simulation.stores.faulty_rows": ("FaultyRowStore",),
    "simulation.stores.disk": ("SimulatedDisk",),
    "simulation.stores.kill_points": ("KillPoint",),
    "simulation.stores.kills": ("Kill",),
    "simulation.history": ("History", "Recorder", "dump"),
    "simulation.loop": ("SimulatedProcess", "SimulationDeadlock", "SimulationLoop"),
    "simulation.seed_run": ("Report", "run_cluster_seed", "run_seed"),
    "simulation.world.world": ("World", "WorldConfig"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "ANOMALIES",
    "Anomaly",
    "ClusterConfig",
    "ClusterFaults",
    "ClusterWorld",
    "EmbeddedServer",
    "FaultyFileStore",
    "FaultyMetaStore",
    "FaultyRowStore",
    "FileFaults",
    "History",
    "Kill",
    "KillPoint",
    "MetaFaults",
    "Recorder",
    "Report",
    "RowFaults",
    "SimulatedDisk",
    "SimulatedProcess",
    "SimulationDeadlock",
    "SimulationLoop",
    "World",
    "WorldConfig",
    "WorldFaults",
    "check",
    "dump",
    "run_cluster_seed",
    "run_seed",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
    globals()[name] = found
    return found
