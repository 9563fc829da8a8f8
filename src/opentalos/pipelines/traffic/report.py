"""Requests for weight proposals and reports of them, for the command and the pipeline."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from opentalos.model.errors import ConfigError
from opentalos.model.message import PartitionKey

PARTITIONS_MAX: Final = 1 << 16  # of a topic; a larger number is an error in the usage
MOVES_SHOWN: Final = 20
PATH: Final = "cluster/weights/proposals"


def question(days: Sequence[Mapping[PartitionKey, int]], budget: float) -> dict[str, Any]:
    """The request to the server: bytes per partition of past days, the oldest first.

    Args: budget: percent of all partitions that may move. Raises: ConfigError.
    """
    return {"days": [_day(day) for day in days], "budget": budget}


def share_rows(proposal: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The expected share of the traffic and the virtual nodes of each server."""
    servers = proposal["servers"]
    total = sum(server["load_before"] for server in servers)
    for server in servers:
        yield {
            "server": server["name"],
            "share_before": round(server["load_before"] / total, 6),
            "share_after": round(server["load_after"] / total, 6),
            "virtual_nodes_before": server["virtual_nodes_before"],
            "virtual_nodes_after": server["virtual_nodes_after"],
        }


def report(proposal: Mapping[str, Any], days: int) -> Iterator[str]:
    """Lines of text: shares, variance before and after, and the moves."""
    span = "1 day" if days == 1 else f"{days} days"
    yield f"expected from {span}; share of the traffic and virtual nodes, now -> then"
    rows = list(share_rows(proposal))
    width = max(len(row["server"]) for row in rows)
    for row in rows:
        before, after = 100 * row["share_before"], 100 * row["share_after"]
        nodes = f"{row['virtual_nodes_before']:6} -> {row['virtual_nodes_after']:6}"
        yield f"  {row['server']:<{width}}  {before:6.2f} % -> {after:6.2f} %  {nodes}"
    old, new = proposal["variance_before"], proposal["variance_after"]
    lower = 100 * (1 - new / old) if old else 0.0
    yield (
        f"variance across servers: {old:.4g} -> {new:.4g}, {lower:.1f} % lower; "
        f"{proposal['moved']} partition{'' if proposal['moved'] == 1 else 's'} to move"
    )
    for move in proposal["moves"][:MOVES_SHOWN]:
        place = f"{move['topic_uuid']}/{move['partition']}"
        yield f"  {place}: {move['source']} -> {move['target']}"
    if proposal["moved"] > MOVES_SHOWN:
        yield f"  and {proposal['moved'] - MOVES_SHOWN} more"


def _day(day: Mapping[PartitionKey, int]) -> dict[str, list[int]]:
    counts: dict[str, list[int]] = {}
    for key, count in day.items():
        if key.partition >= PARTITIONS_MAX:
            raise ConfigError(
                f"usage names partition {key.partition} of topic {key.topic_uuid}; "
                f"a topic has at most {PARTITIONS_MAX}"
            )
        of_topic = counts.setdefault(key.topic_uuid, [])
        of_topic += [0] * (key.partition + 1 - len(of_topic))
        of_topic[key.partition] += count
    return counts
