"""Retention: which sealed segments of a partition may go. Pure."""

from typing import NamedTuple

from opentalos.log.manifest.manifest import Manifest
from opentalos.log.results import TopicLogSettings

_MS_PER_S = 1_000
NOT_METERED = -1


class Retained(NamedTuple):
    """What the decision needs besides the manifest."""

    now_ms: int
    open_bytes: int  # of the unsealed segment
    metered_offset: int  # NOT_METERED: the topic is not metered


def droppable(manifest: Manifest, settings: TopicLogSettings, retained: Retained) -> int:
    """How many of the oldest segments may be dropped: whole, sealed, metered ones only."""
    expired_ms = retained.now_ms - int(settings.retention_s * _MS_PER_S)
    sealed = manifest.sealed
    left_bytes = sum(segment.bytes for segment in sealed) + retained.open_bytes
    count = 0
    for segment in sealed:
        too_old = segment.last_append_ms < expired_ms
        left_bytes -= segment.bytes
        too_many = settings.retention_bytes is not None and left_bytes >= settings.retention_bytes
        if not (too_old or too_many):
            break
        next_offset = segment.next_offset or 0
        if NOT_METERED < retained.metered_offset < next_offset:
            break
        count += 1
    return count


class ClockWatch:
    """Compares wall and loop clock since the start: retention must not follow a wrong wall."""

    __slots__ = ("_disagree_max_s", "_loop_s", "_wall_ms")

    def __init__(self, wall_ms: int, loop_s: float, disagree_max_s: float) -> None:
        self._wall_ms, self._loop_s, self._disagree_max_s = wall_ms, loop_s, disagree_max_s

    def disagreement_s(self, wall_ms: int, loop_s: float) -> float:
        """By how much one clock ran ahead of the other, seconds, >= 0."""
        return abs((wall_ms - self._wall_ms) / _MS_PER_S - (loop_s - self._loop_s))

    def agrees(self, wall_ms: int, loop_s: float) -> bool:
        """Whether retention may trust the wall clock."""
        return self.disagreement_s(wall_ms, loop_s) <= self._disagree_max_s
