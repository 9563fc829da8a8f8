"""One seed, one run, one verdict.

    report = run_seed(7)
    assert report.ok, report              # names the anomalies and the command that replays them

``python -m opentalos.testing 7 --trace`` replays the same run and prints what happened.
"""

import gc
import hashlib
import io
from dataclasses import dataclass, field

from opentalos.testing.checker import Anomaly, check
from opentalos.testing.history import History, dump
from opentalos.testing.workload import standard_workload
from opentalos.testing.world import World, WorldConfig

__all__ = ["Report", "WorldConfig", "run_seed"]


@dataclass(frozen=True, slots=True)
class Report:
    """What a seed showed."""

    seed: int
    anomalies: list[Anomaly]
    history: History = field(repr=False)
    virtual_s: float = 0.0

    @property
    def ok(self) -> bool:
        """No promise was broken."""
        return not self.anomalies

    @property
    def names(self) -> set[str]:
        """Names of the anomalies."""
        return {anomaly.name for anomaly in self.anomalies}

    def digest(self) -> str:
        """Equal for equal histories."""
        lines = io.StringIO()
        dump(self.history, lines)
        return hashlib.sha256(lines.getvalue().encode()).hexdigest()

    def __str__(self) -> str:
        if self.ok:
            return f"seed {self.seed}: {len(self.history.operations)} operations, no anomaly"
        shown = "\n  ".join(map(str, self.anomalies))
        return (
            f"seed {self.seed}: {len(self.anomalies)} anomalies\n  {shown}\n"
            f"replay: python -m opentalos.testing {self.seed} --trace"
        )


def run_seed(seed: int, config: WorldConfig | None = None) -> Report:
    """Play the standard workload on the world that the seed draws, and check its history."""
    was_enabled = gc.isenabled()
    gc.disable()  # a run is short, and collecting cycles of the dead would disturb its order
    try:
        world = World(seed, config)
        history = world.run(standard_workload)
        return Report(seed, check(history), history, world.loop.time())
    finally:
        if was_enabled:
            gc.enable()
