"""How weights are asked for and shown, and which days are whole."""

from typing import Any

import pytest

from opentalos.model.errors import ConfigError
from opentalos.model.message import PartitionKey
from opentalos.pipelines.traffic.report import MOVES_SHOWN, PARTITIONS_MAX, question, report

HOUR_MS = 3_600_000


def proposal(moves: int) -> dict[str, Any]:
    return {
        "servers": [
            {"name": "a", "load_before": 30, "load_after": 22, "virtual_nodes_before": 128,
             "virtual_nodes_after": 120},
            {"name": "bb", "load_before": 10, "load_after": 18, "virtual_nodes_before": 128,
             "virtual_nodes_after": 131},
        ],
        "variance_before": 100.0,
        "variance_after": 4.0,
        "moved": moves,
        "moves": [
            {"topic_uuid": "u", "partition": number, "source": "a", "target": "bb"}
            for number in range(moves)
        ],
    }  # fmt: skip


def test_partitions_are_sent_as_lists_by_topic() -> None:
    day = {PartitionKey("u", 2): 7, PartitionKey("v", 0): 1, PartitionKey("u", 0): 5}
    assert question([day, {}], 2.5) == {"days": [{"u": [5, 0, 7], "v": [1]}, {}], "budget": 2.5}
    with pytest.raises(ConfigError, match="usage names partition 65536 of topic u"):
        question([{PartitionKey("u", PARTITIONS_MAX): 1}], 2)


def test_shares_variance_and_moves_are_shown() -> None:
    lines = list(report(proposal(2), days=7))
    assert lines == [
        "expected from 7 days; share of the traffic and virtual nodes, now -> then",
        "  a    75.00 % ->  55.00 %     128 ->    120",
        "  bb   25.00 % ->  45.00 %     128 ->    131",
        "variance across servers: 100 -> 4, 96.0 % lower; 2 partitions to move",
        "  u/0: a -> bb",
        "  u/1: a -> bb",
    ]
    assert list(report(proposal(MOVES_SHOWN + 3), days=7))[-1] == "  and 3 more"
