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
    missing: int = 0  # partitions below its part that nobody has given up yet
    stray: tuple[int, ...] = ()  # leases of ours that nobody uses: to be given back


def balance(
    me: str,
    holdings: Mapping[str, Sequence[int]],
    mine: Collection[int],
    leaving: Collection[int],
    partitions: int,
    choose: Callable[[Sequence[int], int], Sequence[int]],
) -> Move:
    """What to do after the server told who holds what.

    Args:    holdings: of all live workers; without ``me`` nothing is done, since the seat is not
             known to be ours, but something is missing: it is looked at again soon. mine: what
             this worker knows to hold, without what it is giving up, which is leaving. choose: a
             random choice of so many of them, so that workers seldom want the same.
    Returns: a surplus to release, highest ids first, or free partitions to take. What the server
             lists as ours though we do not know it (an answer got lost) is free to us, or stray.
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
