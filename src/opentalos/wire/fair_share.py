"""How many partitions a worker of a consumer group should hold; every client follows this rule.

The SDK's consumer balances by it, and the broker for workers without a client program of their own.
Source: docs/protocol/consumers.md#balancing; ties by worker id, descending, as the Go and Java
clients do.
"""

from collections.abc import Mapping, Sequence


def fair_share(holdings: Mapping[str, Sequence[int]], worker: str, partitions: int) -> int:
    """The share of ``worker``, which is one of ``holdings``: all live workers' partitions.

    Shares differ by at most one. Workers are ranked by what they hold, then by id, both
    descending; the first ``partitions mod workers`` of them get one partition more.
    """
    ranked = sorted(holdings, key=lambda name: (len(holdings[name]), name), reverse=True)
    least, more = divmod(partitions, len(ranked))
    return least + (ranked.index(worker) < more)
