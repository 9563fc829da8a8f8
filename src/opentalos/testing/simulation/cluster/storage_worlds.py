"""Storage worlds of a cluster; see ``world.storage_worlds``.

``python -m opentalos.testing --cluster --world outage 7`` runs one.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.stores.faults import (
    ClusterFaults,
    FileFaults,
    MetaFaults,
    RowFaults,
)
from opentalos.testing.simulation.world.limits import LOG_LIMITS

# The coordination service is away for several sessions, while servers crash and lose their files.
OUTAGE = ClusterConfig(
    metered=0.0,
    tabled=0.0,
    files=FileFaults(commit_slow=0.03),
    meta=MetaFaults(unknown=0.03),
    rows=RowFaults(),
    cluster=ClusterFaults(
        meta_down=0.3, meta_down_s=12.0, crash=0.1, pause=0.2, cut_storage=0.1, power_loss=0.03
    ),
)
# Partitions with records of Kafka's producers move.
MOVED_RECORDS = ClusterConfig(
    records=True,
    metered=1.0,
    tabled=0.0,
    files=FileFaults(commit_slow=0.03, commit_fails=0.02),
    meta=MetaFaults(unknown=0.03),
    rows=RowFaults(),
    cluster=ClusterFaults(crash=0.2, restart=0.1, pause=0.1, cut_meta=0.1, power_loss=0.03),
)
# The same with members whose coordinator decides who reads what, and who often join and leave.
ASSIGNED_MEMBERS = replace(
    MOVED_RECORDS,
    metered=0.0,
    server_assigns=True,
    workers=0,
    rows=RowFaults(unknown=0.05),
    cluster=ClusterFaults(crash=0.15, restart=0.1, pause=0.2, cut_meta=0.1, join=0.1),
)

# ZooKeeper is restored from a snapshot while no server runs.
OLDER_COORDINATION = ClusterConfig(
    keeps=True,
    metered=0.0,
    tabled=0.0,
    chaos_s=16.0,
    log=replace(LOG_LIMITS, merge_segments_min=0),
    files=FileFaults(),
    meta=MetaFaults(),
    rows=RowFaults(),
    cluster=ClusterFaults(older_meta=0.15, crash=0.1),
)

CLUSTER_WORLDS: Mapping[str, ClusterConfig] = MappingProxyType(
    {
        "outage": OUTAGE,
        "moved-records": MOVED_RECORDS,
        "assigned-members": ASSIGNED_MEMBERS,
        "older-coordination": OLDER_COORDINATION,
    }
)
