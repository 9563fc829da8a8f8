"""A small replay of partition requests: the goals hold, and the checker can fail."""

import pytest
from bench.quota_replay import (
    Population,
    Replay,
    approve_all,
    overloads,
    reject_all,
    wrongly_refused,
)

from opentalos.catalog.quota.decision import Outcome

TENANTS, DAYS = 40, 30


@pytest.mark.parametrize("seed", [500, 501])
def test_most_requests_are_decided_and_none_leads_to_overload(seed: int) -> None:
    cluster = Replay(Population(seed, TENANTS), days=DAYS).run()
    outcomes = [item.outcome for item in cluster.decided]
    assert len(outcomes) > 25
    assert outcomes.count(Outcome.HUMAN) <= 0.2 * len(outcomes)
    assert {Outcome.APPROVE, Outcome.REJECT} <= {*outcomes}
    assert overloads(cluster) == []
    assert len(wrongly_refused(cluster.decided)) <= 0.05 * len(outcomes)


def test_a_cluster_that_never_grows_is_left_to_people_but_not_overloaded() -> None:
    cluster = Replay(Population(502, TENANTS), scarce=True, days=DAYS).run()
    assert overloads(cluster) == []
    lacking = [item for item in cluster.decided if "others " in item.decision.reason]
    assert lacking


def test_everything_granted_leads_to_overload_and_nothing_granted_is_wrong() -> None:
    population = Population(502, TENANTS)
    wild = Replay(population, scarce=True, policy=approve_all, days=DAYS).run()
    assert overloads(wild)
    refused = Replay(population, policy=reject_all, days=DAYS).run().decided
    assert len(wrongly_refused(refused)) > 0.3 * len(refused)


def test_a_seed_gives_the_same_replay() -> None:
    first, second = (Replay(Population(503, 15), days=10).run().decided for _ in range(2))
    assert [(item.asked, item.decision) for item in first] == [
        (item.asked, item.decision) for item in second
    ]
