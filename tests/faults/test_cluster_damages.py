"""Random damages to what a cluster stored in ZooKeeper, HDFS and HBase: each is heard of.

Only with ``make faults``: each makes a cluster of its own, half a minute.
"""

import sys
from collections.abc import Iterator

import pytest
from tests.conftest import RunningBackends
from tests.faults.damages.cluster_campaign import ClusterCampaign
from tests.faults.damages.judge import UNHEARD
from tests.faults.damages.outcome import summary

SEEDS = range(270, 300)

pytestmark = pytest.mark.backend


@pytest.fixture(scope="module")
def campaign(
    backends: RunningBackends, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterCampaign]:
    made = ClusterCampaign(tmp_path_factory.mktemp("damages"), backends)
    yield made
    sys.stdout.write(f"\n| damages to a cluster: {summary(made.ended)}\n")


@pytest.mark.parametrize("seed", SEEDS)
def test_every_damage_is_heard_of(campaign: ClusterCampaign, seed: int) -> None:
    outcome = campaign.run(seed)
    assert outcome.judgement.verdict not in UNHEARD, str(outcome)
