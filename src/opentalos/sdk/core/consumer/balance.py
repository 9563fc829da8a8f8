"""Which partitions a worker gives up or takes; no I/O. Every worker decides so for itself.

Source: docs/protocol/consumers.md#balancing; ties by worker id, descending, as the Go and
Java clients do.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from opentalos.wire.fair_share import fair_share


class Move(NamedTuple):
    """What a worker does in one round; it never releases and takes at once."""

    release: tuple[int, ...] = ()
    take: tuple[int, ...] = ()
    missing: int = 0  # partitions it lacks that other workers have not released yet
    stray: tuple[int, ...] = ()  # leases of this worker that it does not use: to be unlocked


def balance(
    me: str,
    holdings: Mapping[str, Sequence[int]],
    mine: Collection[int],
    leaving: Collection[int],
    partitions: int,
    choose: Callable[[Sequence[int], int], Sequence[int]],
) -> Move:
    """The next rebalancing step of a worker, from the current assignment of the group.

    Args:    holdings: of all live workers; if ``me`` is not among them, nothing changes and
             partitions count as missing, so that the worker checks again soon. mine: the
             partitions of this worker, without those it is releasing (leaving). choose: a random
             sample, so that workers rarely compete for the same partition.
    Returns: a surplus to release, highest ids first, or free partitions to take. A partition the
             server lists for this worker although it does not know it (a reply was lost) counts
             as free for it, or as stray.
    """
    if me not in holdings:
        return Move(missing=1)
    beyond = tuple(sorted(partition for partition in mine if partition >= partitions))
    if beyond:
        return Move(release=beyond)
    target = fair_share(holdings, me, partitions)
    if len(mine) > target:
        return Move(release=tuple(sorted(mine)[target:]))
    taken = {
        partition for worker, theirs in holdings.items() if worker != me for partition in theirs
    }
    taken.update(mine, leaving)
    free = [partition for partition in range(partitions) if partition not in taken]
    short = target - len(mine)
    own = [partition for partition in free if partition in holdings[me]][:short]
    known = {*mine, *leaving, *own}
    stray = tuple(partition for partition in holdings[me] if partition not in known)
    others = [partition for partition in free if partition not in holdings[me]]
    chosen = choose(others, min(short - len(own), len(others)))
    take = tuple(sorted([*own, *chosen]))
    return Move(take=take, missing=short - len(take), stray=stray)
