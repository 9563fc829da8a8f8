"""Worlds in which small segments are merged all the time, beside crashes, cuts and takeovers."""

from dataclasses import replace

import pytest
from tests import tiers

from opentalos.log.counters import LogCounters
from opentalos.log.maintenance import merge
from opentalos.testing.simulation.seed_run import run_seed
from opentalos.testing.simulation.world.limits import LOG_LIMITS
from opentalos.testing.simulation.world.world import WorldConfig

SEEDS = tiers.size(6, 16)
# Segments are sealed when they are still small, and the retention spans many of them.
LIMITS = replace(
    LOG_LIMITS,
    merge_segments_min=3,
    segment_bytes_max=8 << 10,
    segment_age_max_s=0.8,
    idle_seal_s=0.2,
    retention_interval_s=0.2,
    delete_grace_s=0.5,
)


def test_no_promise_is_broken_where_segments_are_merged_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[LogCounters] = []

    def init(self: LogCounters) -> None:
        real(self)
        made.append(self)

    real = LogCounters.__init__
    monkeypatch.setattr(LogCounters, "__init__", init)
    monkeypatch.setattr(merge, "SPAN_SHARE", 1)
    for seed in range(SEEDS):
        report = run_seed(seed, WorldConfig(log=LIMITS))
        assert report.ok, str(report)
    assert sum(counters.merges for counters in made) > 10 * SEEDS
