"""A server is killed right before or right after each kill point of a table (``kill_points``).

The next owner finds what it left: nothing is missing, invented or out of order.
"""

from dataclasses import replace

import pytest
from tests import tiers
from tests.simulation.table_worlds import CALM_ROWS, TAKE_OVERS

from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.seed_run import Report, run_cluster_seed, run_seed
from opentalos.testing.simulation.stores.faults import (
    ClusterFaults,
    FileFaults,
    RowFaults,
    WorldFaults,
)
from opentalos.testing.simulation.stores.kill_points import KillPoint
from opentalos.testing.simulation.stores.kills import Kill

ALONE = replace(
    CALM_ROWS,
    chaos_s=5.0,
    files=FileFaults(),
    world=WorldFaults(),
    switched=1.0,
    recreated=1.0,
)
CLUSTER = replace(
    TAKE_OVERS,
    chaos_s=5.0,
    files=FileFaults(),
    rows=RowFaults(),
    cluster=ClusterFaults(),
    switched=1.0,
    recreated=1.0,
)
FIRST_WRITE = Kill(
    KillPoint.WRITE, after=True, nth=2
)  # leaves something behind, and ends an opening
OPENINGS = (KillPoint.CLAIM, KillPoint.READ_PENDING)
OFTEN = (
    KillPoint.ENTRY,
    KillPoint.WRITE,
    KillPoint.ENTRY_GONE,
    KillPoint.ANNOUNCE,
    KillPoint.APPEND,
    KillPoint.CLEAR,
    KillPoint.WRITE_AND_CLEAR,
)
SEED = 1
# ``make check`` kills before or after a step by turns; a server alone plays both there as well.
IN_A_CLUSTER = [
    pytest.param(step, after, id=f"{step.value}-{'after' if after else 'before'}")
    for number, step in enumerate(KillPoint)
    for after in (False, True)
    if tiers.WHOLE or after == bool(number % 2)
]


def plan(step: KillPoint, after: bool) -> tuple[Kill, ...]:
    """Two kills where that is cheap: the second one is of a server that had to take over."""
    if step in OPENINGS:
        return FIRST_WRITE, Kill(step, after), Kill(step, after, nth=2)
    return (Kill(step, after, nth=2), Kill(step, after)) if step in OFTEN else (Kill(step, after),)


def check(report: Report, kills: tuple[Kill, ...]) -> None:
    """Every kill happened, and no promise was broken."""
    happened = [note.args["point"] for note in report.history.noted("killed-at")]
    assert happened == [str(kill) for kill in kills]
    assert report.ok, str(report)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", KillPoint, ids=lambda step: step.value)
def test_a_kill_at_each_step(step: KillPoint, after: bool) -> None:
    kills = plan(step, after)
    stops = WorldFaults(stop=1.0) if step is KillPoint.LEAVE else WorldFaults()
    check(run_seed(SEED, replace(ALONE, kills=kills, world=stops)), kills)


@pytest.mark.parametrize(("step", "after"), IN_A_CLUSTER)
def test_a_kill_at_each_step_in_a_cluster(step: KillPoint, after: bool) -> None:
    kills = plan(step, after)
    stops = ClusterFaults(restart=1.0) if step is KillPoint.LEAVE else ClusterFaults()
    config: ClusterConfig = replace(CLUSTER, kills=kills, cluster=stops)
    check(run_cluster_seed(SEED, config), kills)
