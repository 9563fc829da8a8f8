"""The longest pass of the event loop while it serves a request with 10,000 names or partitions.

Each request is sent alone to a server in a process of its own, where a timer in the loop measures.
What such a pass takes is the request's longest piece, and what else the machine does.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.client import new_tenant
from bench.noisy.attacker import TOPIC, Attacker, ports_of
from bench.noisy.behaviours import prepare
from bench.noisy.kafka_link import KafkaLink, Request
from bench.plan import Plan
from bench.report import Figure, at_most
from bench.server import ServerProcess
from opentalos.wire.kafka.apis import ApiKey, api_of
from opentalos.wire.kafka.spec import KafkaStruct

GOAL_MS: Final = 5.0
ITEMS: Final = 10_000
PARTITIONS: Final = 8  # of the topic
SETTLE_S: Final = 1.2  # until the watch has reported the second in which the answer came
ANSWER_S: Final = 30.0

# Version and arrays of each request; the last two names are of the items, or of what is in them.
_TEXTS: Final = (
    (ApiKey.DESCRIBE_GROUPS, 5, "groups"),
    (ApiKey.CONSUMER_GROUP_DESCRIBE, 1, "group_ids"),
    (ApiKey.DELETE_GROUPS, 2, "groups_names"),
    (ApiKey.FIND_COORDINATOR, 4, "coordinator_keys"),
)
_NAMED: Final = (
    (ApiKey.METADATA, 12, "topics", "name"),
    (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, "topics", "name"),
    (ApiKey.OFFSET_FETCH, 9, "groups", "group_id"),
    (ApiKey.LEAVE_GROUP, 5, "members", "member_id"),
    (ApiKey.SYNC_GROUP, 5, "assignments", "member_id"),
    (ApiKey.JOIN_GROUP, 9, "protocols", "name"),
)
_PARTS: Final = (
    (ApiKey.PRODUCE, 9, "topic_data", "name", "partition_data", "index"),
    (ApiKey.FETCH, 12, "topics", "topic", "partitions", "partition"),
    (ApiKey.LIST_OFFSETS, 7, "topics", "name", "partitions", "partition_index"),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, "topics", "topic", "partitions", "partition"),
    (ApiKey.OFFSET_COMMIT, 9, "topics", "name", "partitions", "partition_index"),
    (ApiKey.DELETE_RECORDS, 2, "topics", "name", "partitions", "partition_index"),
)


def pieces(plan: Plan) -> Iterator[Figure]:
    """One row per request."""
    work = plan.folder("pieces")
    work.mkdir(parents=True)
    stalls = work / "stalls.jsonl"
    launcher = [sys.executable, "-m", "bench.serve_watched", "--stalls", str(stalls)]
    with ServerProcess(work / "data", launcher=launcher) as server:
        key = new_tenant(server.port, "mallory")
        prepare(server, key)
        attacker = Attacker(ports_of(server), key, float("inf"))
        for request in _requests():
            found = [_longest_ms(attacker, request, stalls) for _ in range(plan.latency_repeats)]
            name = f"longest pass beside {request.api.key.name} with {ITEMS:,} items"
            yield at_most(name, "ms", GOAL_MS, found)


def _longest_ms(attacker: Attacker, request: Request, stalls: Path) -> float:
    with KafkaLink(attacker) as link:
        time.sleep(SETTLE_S)
        before = len(stalls.read_text().splitlines())
        until_s = time.monotonic() + ANSWER_S
        link.send(request.frame)
        while link.open and link.frame() is None and time.monotonic() < until_s:
            pass
        time.sleep(SETTLE_S)
    seconds = [json.loads(line) for line in stalls.read_text().splitlines()[before:]]
    return max(float(second["stall_s"]) for second in seconds) * 1e3


def _requests() -> Iterator[Request]:
    names = [f"missing-{number}" for number in range(ITEMS)]
    for key, version, field in _TEXTS:
        yield Request(key, version, **{field: names})
    for key, version, field, name in _NAMED:
        item = _item(api_of(key).request, field)
        yield Request(key, version, **{field: [item(**{name: each}) for each in names]})
    for key, version, field, name, parts, number in _PARTS:
        topic = _item(api_of(key).request, field)
        part = _item(topic, parts)
        items = [part(**{number: each % PARTITIONS}) for each in range(ITEMS)]
        yield Request(key, version, **{field: [topic(**{name: TOPIC, parts: items})]})


def _item(struct: type[KafkaStruct], field: str) -> Any:
    """The struct of an array's items."""
    (found,) = [each for each in struct.SPEC.fields if each.name == field]
    assert found.type.item is not None
    return found.type.item.struct
