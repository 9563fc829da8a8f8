"""Retention: which sealed segments of a partition may go. Pure."""

import math
from typing import NamedTuple

from opentalos.log.manifest.manifest import Manifest
from opentalos.log.results import TopicLogSettings
from opentalos.log.trusted_time import TrustedTime

_MS_PER_S = 1_000
NOT_METERED = -1


class Retained(NamedTuple):
    """What the decision needs besides the manifest."""

    now_ms: int | None  # None: the clock is in doubt, so nothing has expired
    open_bytes: int  # of the unsealed segment
    metered_offset: int  # NOT_METERED: the topic is not metered


def droppable(manifest: Manifest, settings: TopicLogSettings, retained: Retained) -> int:
    """How many of the oldest segments may be dropped: whole, sealed, metered ones only."""
    expired_ms: float = -math.inf
    if retained.now_ms is not None:
        expired_ms = retained.now_ms - int(settings.retention_s * _MS_PER_S)
    sealed = manifest.sealed
    left_bytes = sum(segment.bytes for segment in sealed) + retained.open_bytes
    count = 0
    for segment in sealed:
        too_old = (segment.counted_ms or segment.last_append_ms) < expired_ms
        left_bytes -= segment.bytes
        too_many = settings.retention_bytes is not None and left_bytes >= settings.retention_bytes
        next_offset = segment.next_offset or 0
        if not (too_old or too_many or next_offset <= manifest.floor):
            break
        if NOT_METERED < retained.metered_offset < next_offset:
            break
        count += 1
    return count


def miscounted(manifest: Manifest, time: TrustedTime, now_ms: int) -> dict[int, int]:
    """Sealed segments whose append times are wrong: from when they count, by base offset.

    ``now_ms``: of a clock that is trusted. What is stored once is not found again.
    """
    found = dict[int, int]()
    for segment in manifest.sealed:
        if not segment.counted_ms:
            counted_ms = time.counted_ms(segment.last_append_ms, now_ms)
            if counted_ms is not None:
                found[segment.base_offset] = counted_ms
    return found
