"""For users' tests too: simulation loop, history checker and faulty memory adapters.

Ways to use it, from a small test to a whole world:

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

from opentalos.testing.checker import ANOMALIES, Anomaly, check
from opentalos.testing.cluster_world import ClusterConfig, ClusterWorld
from opentalos.testing.faults import (
    ClusterFaults,
    FileFaults,
    MetaFaults,
    RowFaults,
    WorldFaults,
)
from opentalos.testing.history import History, Recorder
from opentalos.testing.loop import SimulationDeadlock, SimulationLoop
from opentalos.testing.simulation import Report, run_cluster_seed, run_seed
from opentalos.testing.world import World, WorldConfig

__all__ = [
    "ANOMALIES",
    "Anomaly",
    "ClusterConfig",
    "ClusterFaults",
    "ClusterWorld",
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
