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
    moved_share_max: float,
) -> Proposal:
    """Better weights for the servers of the ring, from bytes per partition of past days.

    Args: days: the oldest first. moved_share_max: of the partitions that the days name.
    Raises: BadRequest: no traffic or no servers to work with.
    """
    traffic = expected_traffic(days)
    if not traffic or not any(traffic.values()):
        raise BadRequest("there is no traffic to go by")
    if not ring:
        raise BadRequest("no server takes part in the cluster")
    return propose(traffic, ring, int(moved_share_max * len(traffic)))
