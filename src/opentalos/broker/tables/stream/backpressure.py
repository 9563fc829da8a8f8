"""Backpressure: what a shard does while too many changes wait for their topics. Sans-io."""

from enum import Enum

from opentalos.broker.tables.stream.publish_lane import PublishLane
from opentalos.model.settings.tables import SdsLimits
from opentalos.model.table import WhenFull


class Pressure(Enum):
    """What happens to the mutations that wait."""

    NONE = "They are written."
    BEGINS = "They wait from now on, for throttle_max_s at most."
    DELAYING = "They wait."
    EXPIRED = "They are rejected."


class Backpressure:
    """Over its budget a shard first delays mutations, for ``throttle_max_s``, then rejects them.

    A table may prefer a gap: then a stream stops whose topic has rejected puts for
    ``refused_max_s``, or rejects them while the budget is used up.
    """

    def __init__(self, limits: SdsLimits) -> None:
        self._limits = limits
        self._full_since_s: float | None = None

    @property
    def delaying(self) -> bool:
        """Whether mutations wait until entries were published and cleared."""
        return self._full_since_s is not None

    def must_stop(self, when_full: WhenFull, lane: PublishLane, full: bool, now_s: float) -> bool:
        """Whether the stream of a rejected lane stops now. Args: full: the budget is used up."""
        since_s = lane.refused_since_s
        if when_full is not WhenFull.GAP or since_s is None:
            return False
        return full or since_s <= now_s - self._limits.refused_max_s

    def update(self, full: bool, now_s: float) -> Pressure:
        """Note whether the budget is used up, and decide."""
        if not full:
            self._full_since_s = None
            return Pressure.NONE
        if self._full_since_s is None:
            self._full_since_s = now_s
            return Pressure.BEGINS
        expired = now_s - self._full_since_s >= self._limits.throttle_max_s
        return Pressure.EXPIRED if expired else Pressure.DELAYING
