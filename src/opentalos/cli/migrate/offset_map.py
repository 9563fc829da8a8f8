"""Which offset at the target a message of the source has; pure.

A partition of a new topic begins at offset 0, and no call changes that. So the copy of a partition
whose first retained offset is 100 begins at 0, and offset 100 of the source is 0 at the target.
Offsets are dense on both sides, so a run of copied messages is one difference. A second run begins
only where the source dropped messages that were not copied yet.
"""

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from opentalos.model.errors import BadRequest

RUNS_MAX: Final = 1_000  # of one partition


class Run(NamedTuple):
    """From here on, both offsets grow together; both are of the first message."""

    source: int
    target: int


class Span(NamedTuple):
    """The same messages on both sides."""

    source: int
    target: int
    messages: int


@dataclass(frozen=True, slots=True)
class OffsetMap:
    """The runs of one partition, by offset; the first one is at offset 0 of the target."""

    runs: Sequence[Run] = ()

    def __post_init__(self) -> None:
        if self.runs and self.runs[0].target:
            raise BadRequest("the first run must begin at offset 0 of the target")
        for former, run in zip(self.runs, self.runs[1:], strict=False):
            if not (former.source < run.source and former.target <= run.target):
                raise BadRequest("runs must be in the order of their offsets")
            if run.target - former.target > run.source - former.source:
                raise BadRequest("runs must not overlap")

    def source_of(self, target: int) -> int:
        """The source's offset of the message that the target stores next, or has, at ``target``."""
        run = self.runs[bisect.bisect_right(self.runs, target, key=lambda run: run.target) - 1]
        return run.source + target - run.target

    def target_of(self, source: int, end: int) -> int:
        """The target's offset of the first copied message at or after ``source``; its ``end`` if
        that is not copied yet."""
        index = bisect.bisect_right(self.runs, source, key=lambda run: run.source) - 1
        if index < 0:
            return 0
        run = self.runs[index]
        following = self.runs[index + 1].target if index + 1 < len(self.runs) else end
        return min(run.target + source - run.source, following, end)

    def joined(self, source: int, target: int) -> "OffsetMap":
        """With the next message: source offset ``source`` is stored at ``target``.

        Raises: BadRequest: too many gaps; copying is slower than the source's retention.
        """
        if self.runs and self.source_of(target) == source:
            return self
        kept = [run for run in self.runs if run.target < target]  # an empty run has no message
        if len(kept) == RUNS_MAX:
            raise BadRequest(
                f"more than {RUNS_MAX} gaps: the source drops messages while they are "
                "copied; raise its retention"
            )
        return OffsetMap((*kept, Run(source, target)))

    def spans(self, end: int) -> Iterator[Span]:
        """Every run with its messages, as far as the target's ``end``."""
        ends = [*(run.target for run in self.runs), end][1:]
        for run, until in zip(self.runs, ends, strict=True):
            if until > run.target:
                yield Span(run.source, run.target, until - run.target)
