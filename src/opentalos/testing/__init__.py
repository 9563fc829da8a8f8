"""For users' tests too: simulation loop, history checker and faulty memory adapters.

Ways to use it, from a small test to a whole world:

- ``EmbeddedServer`` is a real server for the length of a ``with`` block, and ``pytest_plugin`` has
  fixtures that give it to tests.
- ``SimulationLoop().run(coroutine)`` runs asyncio code in virtual time (``loop``).
- ``FaultyFileStore``, ``FaultyMetaStore`` and ``FaultyRowStore`` play storage that fails, on a
  ``SimulatedDisk`` that outlives its servers (``faulty_files``, ``faulty_meta``, ``faulty_rows``).
- ``World(seed).run(scenario)`` runs whole servers and gives their history; ``check(history)`` names
  every broken promise. ``run_seed(seed)`` does both with the standard workload, and
  ``python -m opentalos.testing SEED --trace`` replays it.
- ``ClusterWorld`` and ``run_cluster_seed`` do the same for several servers with a network between
  them; ``--cluster`` replays those.

``Recorder`` and ``check`` also judge real processes: each writes its history as JSON lines.

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
    from opentalos.testing.simulation.history import History, Recorder
    from opentalos.testing.simulation.loop import SimulationDeadlock, SimulationLoop
    from opentalos.testing.simulation.seed_run import Report, run_cluster_seed, run_seed
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
    from opentalos.testing.simulation.world.world import World, WorldConfig

# Imported with their first use: pytest loads this package in every run, for its plugin.
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
    "simulation.history": ("History", "Recorder"),
    "simulation.loop": ("SimulationDeadlock", "SimulationLoop"),
    "simulation.seed_run": ("Report", "run_cluster_seed", "run_seed"),
    "simulation.world.world": ("World", "WorldConfig"),
}
_PLACES = {name: module for module, names in _MODULES.items() for name in names}

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
    "MetaFaults",
    "Recorder",
    "Report",
    "RowFaults",
    "SimulationDeadlock",
    "SimulationLoop",
    "World",
    "WorldConfig",
    "WorldFaults",
    "check",
    "run_cluster_seed",
    "run_seed",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    globals()[name] = found
    return found
