"""Which weights past traffic asks for; nothing is changed by asking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opentalos.broker.cluster.control.computation import worked_out
from opentalos.model.errors import BadRequest, ExcessivePending
from opentalos.model.message import PartitionKey
from opentalos.placement.steps import Pace, Steps
from opentalos.placement.values import Nodes
from opentalos.placement.weights import Proposal, expecting, proposing, variance

__all__ = ["PARTITIONS_MAX", "WeightChoice", "WeightsProposed", "choosing"]

PARTITIONS_MAX = 50_000  # of a cluster that a proposal is made for; beyond it a step takes too long
DAYS_MAX = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsProposed:
    """What ``Proposal`` has, and how uneven the servers are before and after it.

    ``weights``: of every server whose weight is to stay set, also those that are left out of it.
    """

    proposal: Proposal
    ring: Mapping[str, Sequence[int]]  # weights as they are
    weights: Mapping[str, Sequence[int]]
    partitions: int
    moves_max: int
    variance_before: float
    variance_after: float


class WeightChoice:
    """Works out one proposal at a time, while the server continues."""

    def __init__(self) -> None:
        self._busy = False

    async def propose(
        self,
        days: Sequence[Mapping[PartitionKey, int]],
        ring: Mapping[str, Sequence[int]],
        kept: Mapping[str, Sequence[int]],
        owners: Mapping[PartitionKey, str],
        budget: float,
    ) -> WeightsProposed:
        """Better weights for the servers of ``ring``.

        Args: days: bytes per partition, the oldest first. kept: servers that are not on the ring
        and keep their weight. owners: the server of every partition. budget: percent of all
        partitions that may move.
        Raises: BadRequest: no traffic or no servers to work with, too many partitions;
            ExcessivePending: another one is being worked out.
        """
        count = len(owners)
        if not 0 <= budget <= 100:
            raise BadRequest(f"a budget of {budget} % is not in 0..100")
        if count > PARTITIONS_MAX or len(days) > DAYS_MAX:
            raise BadRequest(
                f"a proposal for {count} partitions from {len(days)} days: at most "
                f"{PARTITIONS_MAX} and {DAYS_MAX}"
            )
        if self._busy:
            raise ExcessivePending("another proposal of weights is being worked out")
        moves_max, self._busy = int(budget * count / 100), True
        try:
            proposal = await worked_out(choosing(days, ring, owners, moves_max))
        finally:
            self._busy = False
        return WeightsProposed(
            proposal=proposal,
            ring=ring,
            weights={**kept, **proposal.weights},
            partitions=count,
            moves_max=moves_max,
            variance_before=variance(proposal.loads_before),
            variance_after=variance(proposal.loads_after),
        )


def choosing(
    days: Sequence[Mapping[PartitionKey, int]],
    ring: Mapping[str, Nodes],
    owners: Mapping[PartitionKey, str],
    moves_max: int,
) -> Steps[Proposal]:
    """Better weights for the servers of the ring, from bytes per partition of past days.

    Args: days: the oldest first. owners: the server of every partition of the cluster; one that the
    days do not name is idle, what they name beside is of topics that are gone.
    Raises: BadRequest: no traffic or no servers to work with.
    """
    pace = Pace()
    expected = yield from expecting(days, pace)
    traffic = {key: expected.get(key, 0) for key in owners}
    if pace.due(len(traffic) // 4):
        yield
    if not any(expected.values()):
        raise BadRequest("there is no traffic to go by")
    if not any(traffic.values()):
        raise BadRequest("the traffic is of partitions that this cluster does not have")
    if not ring:
        raise BadRequest("no server takes part in the cluster")
    return (yield from proposing(traffic, ring, owners, moves_max, pace))
