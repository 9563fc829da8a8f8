"""Timestamps of groups and the marks below them."""

from opentalos.broker.tables.shard.group_clock import GroupClock


class WallClock:
    def __init__(self) -> None:
        self.now_ms = 1_000

    def wall_ms(self) -> int:
        return self.now_ms

    def token(self, bytes_count: int) -> bytes:
        return bytes(bytes_count)


def test_changes_are_later_than_every_mark_also_if_the_clock_goes_back() -> None:
    wall = WallClock()
    clock = GroupClock(wall.wall_ms)
    assert clock.mark_ms([]) == 1_000
    wall.now_ms = 500
    assert clock.now_ms() == 1_001
    clock.group_ended()
    clock.stay_above(2_000)
    assert clock.now_ms() == 2_001


def test_a_mark_is_before_what_is_being_written_and_what_is_not_published() -> None:
    wall = WallClock()
    clock = GroupClock(wall.wall_ms)
    assert clock.now_ms() == 1_000
    wall.now_ms = 1_500
    assert clock.now_ms() == 1_500  # a later part of the same group
    assert clock.mark_ms([]) == 999
    clock.group_ended()
    assert clock.mark_ms([1_200, 1_300]) == 1_199
    assert clock.mark_ms([0]) == 0
    assert clock.mark_ms([]) == 1_500
