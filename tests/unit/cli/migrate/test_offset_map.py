"""Offsets of the source as offsets of the target."""

import pytest

from opentalos.cli.migrate.offset_map import RUNS_MAX, OffsetMap, Run, Span
from opentalos.model.errors import BadRequest

GAP = OffsetMap((Run(100, 0), Run(150, 20)))  # 120 to 149 were dropped before they were copied


def test_a_copy_that_begins_at_a_later_offset_is_moved_by_the_difference() -> None:
    moved = OffsetMap().joined(100, 0)
    assert (moved.source_of(0), moved.source_of(7)) == (100, 107)
    assert [moved.target_of(source, 10) for source in (3, 100, 105, 110, 500)] == [0, 0, 5, 10, 10]


def test_a_position_in_a_gap_is_that_of_the_next_copied_message() -> None:
    assert [GAP.target_of(source, 30) for source in (119, 120, 149, 150, 155)] == [
        19, 20, 20, 20, 25,
    ]  # fmt: skip
    assert [GAP.source_of(target) for target in (19, 20, 25)] == [119, 150, 155]


def test_spans_cover_each_copied_message_once() -> None:
    assert list(GAP.spans(30)) == [Span(100, 0, 20), Span(150, 20, 10)]
    assert list(GAP.spans(20)) == [Span(100, 0, 20)]
    assert list(OffsetMap().spans(0)) == []


def test_messages_that_follow_need_no_new_run_and_an_empty_run_is_replaced() -> None:
    assert GAP.joined(160, 30) is GAP
    assert GAP.joined(170, 20).runs == (Run(100, 0), Run(170, 20))
    assert GAP.joined(170, 25).runs[-1] == Run(170, 25)


def test_the_number_of_gaps_is_bounded() -> None:
    full = OffsetMap(tuple(Run(10 * number, number) for number in range(RUNS_MAX)))
    with pytest.raises(BadRequest, match="raise its retention"):
        full.joined(10 * RUNS_MAX, RUNS_MAX)


@pytest.mark.parametrize(
    "runs", [(Run(0, 1),), (Run(5, 0), Run(4, 3)), (Run(0, 0), Run(1, 5))], ids=str
)
def test_runs_that_no_copy_makes_are_refused(runs: tuple[Run, ...]) -> None:
    with pytest.raises(BadRequest):
        OffsetMap(runs)
