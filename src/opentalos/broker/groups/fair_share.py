"""The next step of a worker to its fair share of a group's partitions.

For ``rest_workers.py``, which serves workers that have no client program of their own.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opentalos.wire.fair_share import fair_share


class Step(NamedTuple):
    """What a worker does next: release these partitions, then try to take those."""

    release: Sequence[int]
    take: Sequence[int]


def next_step(holdings: Mapping[str, Sequence[int]], worker: str, partitions: int) -> Step:
    """The step of ``worker``, which is one of ``holdings``. It never takes what is held."""
    share = fair_share(holdings, worker, partitions)
    held = sorted(holdings[worker])
    if len(held) > share:
        return Step(held[share:], ())
    taken = {partition for others in holdings.values() for partition in others}
    free = [partition for partition in range(partitions) if partition not in taken]
    return Step((), free[: share - len(held)])
