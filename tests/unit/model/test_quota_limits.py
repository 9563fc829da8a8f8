"""Relations between the keys of [quota_approval]."""

from typing import Any

import pytest

from opentalos.model.limits import QuotaApprovalLimits


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"fill_max": 0.0}, "fill_max"),
        ({"fill_max": 1.1}, "fill_max"),
        ({"partition_bytes_per_s": 0}, "partition_bytes_per_s"),
        ({"horizon_days": 0}, "horizon_days"),
        ({"history_days_min": 0}, "history_days_min"),
        ({"projection_age_max_days": 0}, "projection_age_max_days"),
        ({"slack": 0.9}, "1 <= slack"),
        ({"slack": 4.0}, "slack <= exaggeration"),
        ({"growth_max": 0.5}, "growth_max"),
        ({"capacity_partitions": 9}, "floor_partitions <= capacity_partitions"),
    ],
)
def test_limits_that_contradict_each_other_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        QuotaApprovalLimits(**wrong)


def test_the_defaults_and_a_small_cluster_are_fine() -> None:
    assert QuotaApprovalLimits().capacity_partitions == 0
    QuotaApprovalLimits(capacity_partitions=10, fill_max=0.8, floor_partitions=8)
