"""Which weights past traffic asks for: what ``talos cluster weights`` shows before it sets them."""

from collections.abc import Mapping, Sequence

from opentalos.model.errors import BadRequest
from opentalos.model.message import PartitionKey
from opentalos.placement.values import Nodes
from opentalos.placement.weights import Proposal, expected_traffic, propose, variance

__all__ = ["Proposal", "choose_weights", "variance"]


def choose_weights(
    days: Sequence[Mapping[PartitionKey, int]],
    ring: Mapping[str, Nodes],
    partitions: Mapping[str, int],
    moves_max: int,
) -> Proposal:
    """Better weights for the servers of the ring, from bytes per partition of past days.

    Args: days: the oldest first. partitions: how many each topic of the cluster has, by uuid; one
    that the days do not name is idle, what they name beside is of topics that are gone.
    Raises: BadRequest: no traffic or no servers to work with.
    """
    expected = expected_traffic(days)
    keys = (PartitionKey(uuid, one) for uuid, count in partitions.items() for one in range(count))
    traffic = {key: expected.get(key, 0) for key in keys}
    if not any(expected.values()):
        raise BadRequest("there is no traffic to go by")
    if not any(traffic.values()):
        raise BadRequest("the traffic is of partitions that this cluster does not have")
    if not ring:
        raise BadRequest("no server takes part in the cluster")
    return propose(traffic, ring, moves_max)
