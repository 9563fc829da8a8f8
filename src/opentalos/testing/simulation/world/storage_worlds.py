"""Storage worlds: each has the faults of one kind of trouble that a storage system meets.

    report = run_seed(7, STORAGE_WORLDS["rot"])

``python -m opentalos.testing --world rot 7`` runs the same. A world has few other faults, so that
the checker may judge strictly: whatever its faults do not excuse must hold.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from opentalos.model.limits import QuotaLimits
from opentalos.testing.simulation.stores.faults import (
    FileFaults,
    MetaFaults,
    RowFaults,
    WorldFaults,
)
from opentalos.testing.simulation.world.bounds import Bounds
from opentalos.testing.simulation.world.limits import LOG_LIMITS
from opentalos.testing.simulation.world.world import NOISE, TEXT, ZEROS, WorldConfig

_QUIET = WorldConfig(
    metered=0.0,
    tabled=0.0,
    files=FileFaults(),
    meta=MetaFaults(),
    rows=RowFaults(),
    world=WorldFaults(),
    quota=QuotaLimits(),
)

ROT = replace(
    _QUIET,
    payloads=(TEXT, ZEROS, NOISE),
    filler_bytes_max=2_000,
    log=replace(LOG_LIMITS, segment_bytes_max=16 << 10),
    files=FileFaults(writeback=0.5),
    world=WorldFaults(rot_anywhere=0.3, process_crash=0.2, stop=0.05),
)
DURABILITY = replace(
    _QUIET,
    payloads=(TEXT, ZEROS),
    filler_bytes_max=1_000,
    partitions=6,
    changed=True,
    log=replace(LOG_LIMITS, segment_bytes_max=16 << 10, segments_open_max=16, idle_seal_s=20.0),
    world=WorldFaults(power_loss=0.35, process_crash=0.35),
)
POISON = replace(
    _QUIET,
    neighbour=True,
    files=FileFaults(poison=1.0),
    call_s=20.0,
    answer_s=9.0,
    fair_s=1.0,
    isolates=True,
)
CLOCKS = replace(
    _QUIET,
    world=WorldFaults(boot_days=0.4, step_days=0.1, process_crash=0.15, stop=0.1),
)
EXHAUSTION = replace(
    _QUIET,
    files=FileFaults(raises=0.01, foreign=0.5),
    world=WorldFaults(exhausted=0.2, process_crash=0.05, stop=0.05),
)
BUSY = replace(
    _QUIET,
    cpu_share=0.01,
    files=FileFaults(commit_fails=0.03, commit_slow=0.03),
    world=WorldFaults(process_crash=0.1, power_loss=0.05, usurped=0.05),
)
ENTRIES = replace(
    _QUIET,
    files=FileFaults(entries_undone=0.7, commit_fails=0.03, create_fails=0.03),
    world=WorldFaults(power_loss=0.35, stop=0.05),
)
LATE = replace(
    _QUIET,
    meta=MetaFaults(unknown=0.15, unknown_later=0.7),
    files=FileFaults(commit_fails=0.03),
    world=WorldFaults(process_crash=0.1, usurped=0.1, stop=0.05),
)
BOUNDS = replace(
    _QUIET,
    bounds=Bounds(),
    partitions=4,
    producers=6,
    log=replace(
        LOG_LIMITS,
        segment_bytes_max=1 << 10,
        segments_open_max=2,
        lanes=2,
        lanes_max=3,
        group_bytes_max=8 << 10,
        pending_bytes_max=16 << 10,
        pending_bytes_total_max=32 << 10,
    ),
    files=FileFaults(commit_slow=0.1),
    world=WorldFaults(process_crash=0.05, stop=0.05),
)
HANGING = replace(
    _QUIET,
    partitions=8,
    neighbour=True,
    crowded=True,
    call_s=20.0,
    answer_s=6.5,
    fair_s=1.0,
    log=replace(
        LOG_LIMITS,
        commit_deadline_s=5.0,
        lanes=2,
        lanes_max=4,
        group_bytes_max=8 << 10,
        pending_bytes_max=16 << 10,
        pending_bytes_total_max=32 << 10,
        segments_open_max=64,
    ),
    world=WorldFaults(hanging=0.3),
)
SHARED = replace(
    _QUIET,
    shared=True,
    bounds=Bounds(producers_max=8, producers_of_principal_max=2),
    partitions=1,  # so that names meet
    files=FileFaults(commit_fails=0.03, commit_slow=0.03),
    world=WorldFaults(process_crash=0.1, usurped=0.05, stop=0.05),
)
REPLICAS = replace(
    _QUIET,
    log=replace(LOG_LIMITS, segment_bytes_max=1 << 20),  # rolls are for replicas alone
    files=FileFaults(thin=0.1, commit_fails=0.02, create_fails=0.05, commit_slow=0.05),
    meta=MetaFaults(unknown=0.05),
    world=WorldFaults(process_crash=0.15, power_loss=0.1, usurped=0.1, stop=0.05),
)
RECORDS = replace(
    _QUIET,
    records=True,
    metered=1.0,
    files=FileFaults(commit_fails=0.05, commit_slow=0.1, create_fails=0.03),
    meta=MetaFaults(unknown=0.05),
    world=WorldFaults(process_crash=0.15, power_loss=0.1, usurped=0.05, stop=0.05),
)

# What is stored comes back older, shorter or with a flipped bit. Nothing is ever deleted, so that
# whatever a manifest has named must stay.
_KEEPS = replace(
    _QUIET,
    keeps=True,
    partitions=3,
    filler_bytes_max=400,
    log=replace(LOG_LIMITS, merge_segments_min=0),
)
OLDER = replace(_KEEPS, world=WorldFaults(older_meta=0.15, process_crash=0.15, stop=0.05))
SHORTER = replace(_KEEPS, world=WorldFaults(shorter=0.15, process_crash=0.15, stop=0.05))
RECORD_ROT = replace(_KEEPS, world=WorldFaults(record_rot=0.2, process_crash=0.1, stop=0.05))


def _unmarked(config: WorldConfig) -> WorldConfig:
    """Without end marks, as on HDFS."""
    return replace(config, log=replace(config.log, end_mark_ms=0))


STORAGE_WORLDS: Mapping[str, WorldConfig] = MappingProxyType(
    {
        "rot": ROT,
        "durability": DURABILITY,
        "poison": POISON,
        "clocks": CLOCKS,
        "exhaustion": EXHAUSTION,
        "busy": BUSY,
        "entries": ENTRIES,
        "late": LATE,
        "bounds": BOUNDS,
        "hanging": HANGING,
        "shared": SHARED,
        "replicas": REPLICAS,
        "records": RECORDS,
        "older": OLDER,
        "older-unmarked": _unmarked(OLDER),
        "shorter": SHORTER,
        "shorter-unmarked": _unmarked(SHORTER),
        "record-rot": RECORD_ROT,
    }
)
