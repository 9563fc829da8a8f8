"""When a segment rolls or is sealed, and what a failed opening means for those who wait."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.matrix import matrix

from opentalos.log.manifest.manifest import SEGMENTS_SOFT_MAX
from opentalos.log.partition.decisions import (
    SOFT_MAX_ROLL_FACTOR,
    Attempt,
    Due,
    judge_opening,
    segment_due,
)
from opentalos.model.errors import (
    CorruptLog,
    NotOwner,
    PartitionNotServing,
    StorageFull,
    StoreUnavailable,
)
from opentalos.model.limits import LogLimits
from opentalos.model.message import Durability

LIMITS = LogLimits(
    segment_bytes_max=1_024,
    segment_bytes_hard_max=4_096,
    segment_age_max_s=100.0,
    idle_seal_s=10.0,
    reopen_attempts_max=3,
    recover_deadline_s=5.0,
    journal_bytes_max=2_048,
)


def partition(
    size_bytes: int = 0,
    *,
    messages: bool = True,
    steady: bool = True,
    segments: int = 1,
    ahead: bool = False,
    thin: bool = False,
    tail_bytes: int = 0,
    late: bool = False,
) -> Any:
    """What the rule reads of a partition whose segment was opened at 0 s."""
    return SimpleNamespace(
        segment=SimpleNamespace(
            opened_s=0.0,
            durability=Durability.SYNCED,
            has_messages=messages,
            next_file=object() if ahead else None,
            tail_bytes=tail_bytes,
            late=late,
            view=SimpleNamespace(end_position=size_bytes),
            file=SimpleNamespace(thin=thin),
        ),
        settings=SimpleNamespace(durability=Durability.SYNCED),
        versioned=SimpleNamespace(manifest=SimpleNamespace(segments=[None] * segments)),
        context=SimpleNamespace(limits=LIMITS, guard=SimpleNamespace(steady=lambda: steady)),
    )


@matrix(
    ("asked", "now_s", "due"),
    [
        (partition(895), 87.0, None),
        (partition(896), 0.0, Due.PREPARE),
        (partition(1), 87.5, Due.PREPARE),
        (partition(1_023, ahead=True), 99.0, None),
        (partition(1_024), 99.0, Due.ROLL),
        (partition(1), 100.0, Due.ROLL),
        (partition(4_096, messages=False), 100.0, None),
        (partition(1_024, steady=False), 100.0, None),
        (partition(4_096, steady=False), 0.0, Due.ROLL),
        (partition(1_024, segments=SEGMENTS_SOFT_MAX + 1), 100.0, None),
        (partition(4_096 * 7 // 8, segments=SEGMENTS_SOFT_MAX + 1), 0.0, Due.PREPARE),
        (partition(4_096, segments=SEGMENTS_SOFT_MAX + 1), 0.0, Due.ROLL),
        (partition(1, tail_bytes=2_048), 0.0, None),
        (partition(1, tail_bytes=2_049), 0.0, Due.ROLL),
        (partition(1, tail_bytes=2_049, steady=False), 0.0, None),
        (partition(1, segments=SEGMENTS_SOFT_MAX + 1), 100.0 * SOFT_MAX_ROLL_FACTOR, Due.ROLL),
    ],
)
def test_a_put_rolls_by_size_or_age(asked: Any, now_s: float, due: Due | None) -> None:
    assert segment_due(asked, now_s) is due


def test_an_idle_or_old_segment_is_sealed_by_the_same_rule() -> None:
    assert segment_due(partition(9_999), 99.0, 9.9) is None
    assert segment_due(partition(), 99.0, 10.0) is Due.SEAL
    assert segment_due(partition(late=True), 99.0, 10.0) is None  # it costs no open file
    assert segment_due(partition(late=True), 100.0, 10.0) is Due.SEAL
    assert segment_due(partition(), 100.0, 0.0) is Due.SEAL
    many = partition(segments=SEGMENTS_SOFT_MAX + 1)  # sealed as late as it would be rolled
    assert segment_due(many, 100.0, 0.0) is None
    assert segment_due(many, 100.0 * SOFT_MAX_ROLL_FACTOR, 0.0) is Due.SEAL


@pytest.mark.parametrize("segments", [1, SEGMENTS_SOFT_MAX, SEGMENTS_SOFT_MAX + 1])
@pytest.mark.parametrize("age_s", [99.0, 100.0, 1_599.0, 1_600.0])
def test_a_segment_is_old_for_a_put_when_it_is_old_for_the_upkeep(
    segments: int, age_s: float
) -> None:
    """With very many segments both wait for the longer age, or sealing would make more of them."""
    asked = partition(segments=segments, ahead=True)
    rolls = segment_due(asked, age_s) is Due.ROLL
    assert (segment_due(asked, age_s, 0.0) is Due.SEAL) is rolls
    old_s = 100.0 if segments <= SEGMENTS_SOFT_MAX else 100.0 * SOFT_MAX_ROLL_FACTOR
    assert rolls is (age_s >= old_s)


def test_a_thin_file_is_left_for_a_new_one() -> None:
    assert segment_due(partition(1, thin=True), 0.0) is Due.ROLL
    assert segment_due(partition(1, thin=True), 0.0, 0.0) is Due.SEAL
    # a roll would make the same segment, it needs the coordination, there are too many segments
    assert segment_due(partition(1, thin=True, messages=False), 0.0) is None
    assert segment_due(partition(1, thin=True, steady=False), 0.0) is None
    many = partition(1, thin=True, segments=SEGMENTS_SOFT_MAX + 1)
    assert segment_due(many, 0.0) is None
    assert segment_due(many, 0.0, 0.0) is None


def test_an_outdated_durability_rolls_or_discards() -> None:
    for messages, due in ((True, Due.ROLL), (False, Due.DISCARD)):
        asked = partition(messages=messages, steady=False)
        asked.settings.durability = Durability.FLUSHED
        assert segment_due(asked, 0.0) is due


def attempt(error: Exception, number: int = 1, tried_s: float = 0.0, final: bool = False) -> Any:
    return judge_opening(Attempt("p", error, number, tried_s, final), LIMITS)


def test_an_opening_is_tried_again_within_its_bounds() -> None:
    away = StoreUnavailable("away")
    assert attempt(away).refusal is None
    assert 0 < attempt(away).delay_s < attempt(away, 2).delay_s
    for verdict in (attempt(away, 3), attempt(away, 1, 5.1), attempt(away, 1, 0.0, True)):
        assert isinstance(verdict.refusal, PartitionNotServing)
        assert "away" in str(verdict.refusal)


def test_damage_and_a_full_disk_refuse_the_queue_at_once() -> None:
    damaged = attempt(CorruptLog("bad block"))
    assert isinstance(damaged.queue_error, CorruptLog)
    assert damaged.refusal is not None
    full = attempt(StorageFull("no space"))
    assert isinstance(full.queue_error, StorageFull)
    assert full.refusal is None


def test_the_address_of_the_owner_reaches_the_waiters() -> None:
    moved = NotOwner("served by s2", "s2:1")
    assert attempt(moved).refusal is moved
