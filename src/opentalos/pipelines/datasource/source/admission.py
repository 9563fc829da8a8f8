"""How much of a backlog one trigger takes."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

_K = TypeVar("_K", bound=Hashable)


def fair_shares(backlog: Mapping[_K, int], limit: int) -> dict[_K, int]:
    """Rows of each partition, at most ``limit`` together, and that many if there are.

    All get the same; what one does not need goes to the others, so no partition waits for
    another one's backlog.
    """
    shares: dict[_K, int] = {}
    left = limit
    waiting = sorted(backlog.items(), key=lambda item: item[1])
    for index, (partition, rows) in enumerate(waiting):
        shares[partition] = min(rows, left // (len(waiting) - index))
        left -= shares[partition]
    return shares
