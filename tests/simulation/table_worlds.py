"""Simulated worlds with a table, for its seeds, kills and mutants."""

from dataclasses import replace

from tests.simulation.cluster_mutants import CRASHES as CLUSTER_CRASHES
from tests.simulation.mutants import CRASHES

from opentalos.testing.simulation.stores.faults import (
    ClusterFaults,
    FileFaults,
    MetaFaults,
    RowFaults,
    WorldFaults,
)
from opentalos.testing.simulation.stores.kill_points import KillPoint
from opentalos.testing.simulation.stores.kills import Kill

TABLED = replace(
    CRASHES,
    chaos_s=8.0,
    tabled=1.0,
    kills=(),
    recreated=0.0,
    gapped=0.0,
    expiring=0.0,
    keyed=0.0,
    messages=False,
    think_s=0.1,
    files=FileFaults(commit_slow=0.1),
    meta=MetaFaults(),
    rows=RowFaults(unknown=0.1, unknown_later=0.5, slow=0.05),
    world=WorldFaults(process_crash=0.4),
)
CALM_ROWS = replace(TABLED, rows=RowFaults())
HASTE = replace(TABLED, rows=RowFaults(slow=0.6), world=WorldFaults(process_crash=0.8))
UNKNOWN = replace(TABLED, rows=RowFaults(unknown=0.3), world=WorldFaults())
LATE = replace(
    TABLED,
    rows=RowFaults(unknown=0.4, unknown_later=1.0),
    world=WorldFaults(process_crash=0.6),
)
RIVALS = replace(CALM_ROWS, chaos_s=14.0, world=WorldFaults(usurped=0.5, pause_s=1.0))
FEW_CRASHES = replace(CALM_ROWS, chaos_s=5.0, world=WorldFaults(process_crash=0.3))
META_AWAY = replace(
    CALM_ROWS,
    chaos_s=5.0,
    meta=MetaFaults(unavailable=0.3, unknown=0.1),
    world=WorldFaults(process_crash=0.4),
)
SLOW = replace(CALM_ROWS, files=FileFaults(commit_slow=0.5))
JUMPS = replace(CALM_ROWS, world=WorldFaults(clock_jump=0.6, clock_jump_s=5.0))
# A server is killed at named steps, and nothing else happens; see test_named_kills.py.
NAMED = replace(CALM_ROWS, chaos_s=5.0, files=FileFaults(), world=WorldFaults())
AFTER_WRITES = replace(NAMED, kills=(Kill(KillPoint.WRITE, after=True, nth=3),) * 4)
BEFORE_WRITES = replace(NAMED, kills=(Kill(KillPoint.WRITE, after=False, nth=3),) * 4)
AFTER_CLEARS = replace(
    NAMED,
    files=FileFaults(commit_slow=0.5),
    kills=(Kill(KillPoint.CLEAR, after=True, nth=2),) * 4,
)
GAPPED = replace(CALM_ROWS, chaos_s=16.0, gapped=1.0)
RECREATED = replace(NAMED, recreated=1.0)
TAKE_OVERS = replace(
    CLUSTER_CRASHES,
    tabled=1.0,
    kills=(),
    recreated=0.0,
    gapped=0.0,
    expiring=0.0,
    keyed=0.0,
    messages=False,
    think_s=0.1,
    files=FileFaults(commit_slow=0.1),
    meta=MetaFaults(),
    rows=RowFaults(slow=0.2),
    cluster=ClusterFaults(crash=0.6),
)
