"""How many partitions a worker of a group should hold, by the rule that all clients follow."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Step(NamedTuple):
    """What a worker does next: give up these partitions, then try to take those."""

    release: Sequence[int]
    take: Sequence[int]


def next_step(holdings: Mapping[str, Sequence[int]], worker: str, partitions: int) -> Step:
    """The step of ``worker``, which is one of ``holdings``. It never takes what is held.

    Workers are ranked by what they hold, then by id, both descending; the first ``partitions mod
    workers`` of them should hold one more than the others.

    Source: docs/protocol/consumers.md#balancing.
    """
    ranked = sorted(holdings, key=lambda name: (len(holdings[name]), name), reverse=True)
    least, more = divmod(partitions, len(ranked))
    target = least + (ranked.index(worker) < more)
    held = sorted(holdings[worker])
    if len(held) > target:
        return Step(held[target:], ())
    taken = {one for others in holdings.values() for one in others}
    free = [one for one in range(partitions) if one not in taken]
    return Step((), free[: target - len(held)])
