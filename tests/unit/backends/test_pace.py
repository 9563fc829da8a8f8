"""Limits follow the machine."""

import pytest

from opentalos.backends.pace import slowness, slowness_of, too_slow


@pytest.mark.parametrize(
    ("work_s", "cores_count", "factor"),
    [(0.07, 2, 1), (0.01, 16, 1), (0.14, 4, 2), (0.07, 1, 2), (0.14, 1, 4), (60, 1, 8)],
)
def test_a_slower_core_and_fewer_cores_have_more_time_up_to_a_limit(
    work_s: float, cores_count: int, factor: float
) -> None:
    assert slowness_of(work_s, cores_count) == pytest.approx(factor)


def test_this_machine_is_measured_and_named() -> None:
    assert 1 <= slowness() <= 8
    assert "MB of memory free" in too_slow()
