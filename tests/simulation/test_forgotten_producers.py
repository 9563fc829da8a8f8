"""A producer table that is too small for its producers: refused, but nothing stored twice."""

import pytest
from tests import tiers

from opentalos.log.segment import producers
from opentalos.testing.simulation.cluster.world import ClusterConfig
from opentalos.testing.simulation.seed_run import run_cluster_seed, run_seed
from opentalos.testing.simulation.world.world import WorldConfig

REFUSED = {"false-sequence-gap"}  # a forgotten producer has to start again


def test_a_forgotten_producer_is_refused_and_never_stored_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", 1)
    alone = WorldConfig(put_twice=0.5, tabled=0.0)
    cluster = ClusterConfig(put_twice=0.5, tabled=0.0)
    shown = [run_seed(seed, alone).names for seed in range(tiers.size(8, 24))]
    shown += [run_cluster_seed(seed, cluster).names for seed in range(tiers.size(2, 6))]
    assert [names for names in shown if not names <= REFUSED] == []
    assert REFUSED in shown, "no producer was forgotten"
