"""REST of weight proposals, which would balance past traffic. Nothing is changed."""

from typing import Any

from opentalos.broker.cluster.service import WeightsProposed
from opentalos.gateway.rest.cluster.cluster import service_of
from opentalos.gateway.rest.routing.call import Answer, Call
from opentalos.gateway.rest.routing.errors import Unusable
from opentalos.gateway.rest.routing.route import Body, Route
from opentalos.gateway.rest.routing.schema import fields, integer, items, number, table, text
from opentalos.model.message import PartitionKey

BODY_BYTES_MAX = 8 << 20
DAYS_MAX = 31
MOVES_SHOWN_MAX = 1_000
_DEFAULT_BUDGET = 2.0
_PERCENT = 100
_DAY = table(items(integer(about="Bytes of partition 0, 1, ..., by the topic's uuid.")))
_SERVER = fields(
    name=text(), load_before=integer(about="Bytes per day."), load_after=integer(),
    virtual_nodes_before=integer(), virtual_nodes_after=integer(),
)  # fmt: skip
_MOVE = fields(topic_uuid=text(), partition=integer(), source=text(), target=text())
_PROPOSAL = fields(
    weights=table(items(integer(about="In the form of servers of PUT /cluster/weights."))),
    servers=items(_SERVER),
    variance_before=number("Variance of the servers' expected bytes per day."),
    variance_after=number(),
    moved=integer(about="Partitions that would move."),
    moves=items(_MOVE),
    moves_max=integer(about="Moves that the budget allows."),
    partitions=integer(about="Of the whole cluster."),
)


async def propose_weights(call: Call) -> Answer:
    """From bytes per partition of past days."""
    service = service_of(call)
    days = [
        {
            PartitionKey(uuid, partition): count
            for uuid, counts in day.items()
            for partition, count in enumerate(counts)
            if count
        }
        for day in call.document["days"]
    ]
    budget = call.document.get("budget", _DEFAULT_BUDGET)
    if budget > _PERCENT:
        raise Unusable(f"budget must be at most {_PERCENT} %, not {budget} %")
    found = await service.propose_weights(call.caller, days, budget)
    return Answer(_shown(found))


def _shown(found: WeightsProposed) -> dict[str, Any]:
    proposal = found.proposal
    moves = [
        {
            "topic_uuid": key.topic_uuid,
            "partition": key.partition,
            "source": source,
            "target": target,
        }
        for key, (source, target) in list(proposal.moves.items())[:MOVES_SHOWN_MAX]
    ]
    servers = [
        {
            "name": name,
            "load_before": proposal.loads_before[name],
            "load_after": proposal.loads_after[name],
            "virtual_nodes_before": sum(found.ring[name]),
            "virtual_nodes_after": sum(proposal.weights[name]),
        }
        for name in sorted(proposal.weights)
    ]
    return {
        "weights": {name: list(nodes) for name, nodes in found.weights.items()},
        "servers": servers,
        "variance_before": found.variance_before,
        "variance_after": found.variance_after,
        "moved": len(proposal.moves),
        "moves": moves,
        "moves_max": found.moves_max,
        "partitions": found.partitions,
    }


ROUTES = (
    Route(
        method="POST", path="cluster/weights/proposals", handler=propose_weights, tag="cluster",
        summary="Propose weights that would balance past traffic; for administrators.",
        body=Body(
            fields(
                days=items(_DAY, minimum=1, maximum=DAYS_MAX),
                optional={"budget": number("Percent of all partitions that may move; default 2.")},
            ),
            bytes_max=BODY_BYTES_MAX,
        ),
        reply=_PROPOSAL, statuses=(409, 422),
        notes="The oldest day comes first. A partition without traffic may be left out. Nothing is "
        "changed; PUT /cluster/weights applies a proposal.",
    ),
)  # fmt: skip
