"""How many rows of a backlog one trigger reads."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

_K = TypeVar("_K", bound=Hashable)


def fair_shares(backlog: Mapping[_K, int], limit: int) -> dict[_K, int]:
    """Rows to read from each partition, in total ``limit`` or the whole backlog.

    All partitions get equal shares; what one does not need goes to the others, so no partition
    waits for another one's backlog.
    """
    shares: dict[_K, int] = {}
    left = limit
    waiting = sorted(backlog.items(), key=lambda item: item[1])
    for index, (partition, rows) in enumerate(waiting):
        shares[partition] = min(rows, left // (len(waiting) - index))
        left -= shares[partition]
    return shares
