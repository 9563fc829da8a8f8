"""The service's own topics: who makes, sees and writes them, alone and in a cluster."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from tests.service_topics import messages_of
from tests.unit.broker.several import Several, several
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE, ROOT

from opentalos.broker.messaging import system_topics
from opentalos.broker.messaging.system_topics import PUT_BYTES_MAX, PUT_MESSAGES_MAX
from opentalos.broker.peer_rpc.calls import SYSTEM_PUT
from opentalos.model.errors import (
    BadRequest,
    InvalidName,
    OutcomeUnknown,
    PartitionNotServing,
    RequestTooLarge,
    StoreUnavailable,
    TopicNotExist,
)
from opentalos.model.identity import GUEST, Principal
from opentalos.model.limits import SystemTopicSettings, TopicLimits
from opentalos.model.names import METRICS_TOPIC, SYSTEM_TENANT, USAGE_TOPIC
from opentalos.ports.peers import CallRequest


async def test_what_was_put_is_there_after_a_restart() -> None:
    async with world() as made:
        await made.broker.system_topics.put(METRICS_TOPIC, [b"one", b"two"], key="a")
        assert await messages_of(made.broker, METRICS_TOPIC) == [b"one", b"two"]
        await made.restart()
        await made.broker.system_topics.put(METRICS_TOPIC, [b"three"], key="a")
        assert await messages_of(made.broker, METRICS_TOPIC) == [b"one", b"two", b"three"]


async def test_keys_are_spread_and_each_stays_in_its_partition() -> None:
    async with world() as made:
        for key in ("a", "b", "c", "d", "e", "f", "g", "h", "a"):
            await made.broker.system_topics.put(METRICS_TOPIC, [key.encode()], key=key)
        found = made.broker.topics.find_topic(ROOT, METRICS_TOPIC)
        used = [await made.broker.messages.offsets(ROOT, found.resource, n) for n in range(4)]
        assert sum(item.next > 0 for item in used) >= 3
        data = await messages_of(made.broker, METRICS_TOPIC)
        assert data.count(b"a") == 2
        assert len(data) == 9


async def test_a_topic_is_made_as_configured_within_the_limits() -> None:
    settings = SystemTopicSettings(partitions=9, retention_s=10**9)
    limits = TopicLimits(partitions_max=8, partitions_default=2, retention_max_s=90_000)
    async with world(usage_topic=settings, topic=limits) as made:
        topic = await made.broker.system_topics.ensure(USAGE_TOPIC)
        assert (topic.owner, topic.partitions, topic.retention_s) == (SYSTEM_TENANT, 8, 90_000)
        assert topic.retention_bytes is None
    settings = SystemTopicSettings(retention_bytes=1 << 30)
    async with world(metrics_topic=settings) as made:
        topic = await made.broker.system_topics.ensure(METRICS_TOPIC)
        assert topic.retention_bytes == 1 << 30


async def test_only_an_administrator_sees_them() -> None:
    async with world() as made:
        broker = made.broker
        topic = await broker.system_topics.ensure(METRICS_TOPIC)
        assert broker.topics.find_topic(ROOT, METRICS_TOPIC) == topic
        assert broker.topics.find_topic(ROOT, f"{SYSTEM_TENANT}/{METRICS_TOPIC}") == topic
        older = Principal(id=SYSTEM_TENANT, number=9)  # from before the name was reserved
        for caller in (ALICE, GUEST, older):
            for name in (METRICS_TOPIC, f"{SYSTEM_TENANT}/{METRICS_TOPIC}", topic.resource):
                with pytest.raises(TopicNotExist, match="does not exist"):
                    broker.topics.find_topic(caller, name)


async def test_no_list_shows_them() -> None:
    async with world() as made:
        broker = made.broker
        for name in (METRICS_TOPIC, USAGE_TOPIC):
            await broker.system_topics.ensure(name)
        await made.topic(ALICE, "hers")
        for caller in (ROOT, ALICE):
            assert METRICS_TOPIC not in {item.name for item in broker.topics.list_topics(caller)}
        assert [topic.name for topic in await broker.overview.listed_topics(ROOT)] == ["hers"]


async def test_they_do_not_count_as_topics_of_the_service() -> None:
    async with world(topic=TopicLimits(topics_max=1)) as made:
        await made.broker.system_topics.ensure(METRICS_TOPIC)
        assert (await made.topic(ALICE, "first")).name == "first"


async def test_topics_and_principals_of_reserved_names_are_refused() -> None:
    async with world() as made:
        for caller in (ALICE, ROOT):
            for name in (METRICS_TOPIC, "__mine", f"{SYSTEM_TENANT}/{USAGE_TOPIC}", "system/x"):
                with pytest.raises(InvalidName):
                    await made.topic(caller, name)
        with pytest.raises(InvalidName, match="reserved"):
            await made.broker.principals.create(ROOT, SYSTEM_TENANT)


async def test_not_even_an_administrator_deletes_one() -> None:
    async with world() as made:
        topic = await made.broker.system_topics.ensure(USAGE_TOPIC)
        with pytest.raises(BadRequest, match="belongs to the service"):
            await made.broker.topics.delete_topic(ROOT, topic.resource)
        with pytest.raises(TopicNotExist):
            await made.broker.topics.delete_topic(ALICE, topic.resource)
        assert made.broker.topics.find_topic(ROOT, USAGE_TOPIC) == topic


async def test_what_is_too_large_or_empty_is_refused() -> None:
    async with world() as made:
        put = made.broker.system_topics.put
        with pytest.raises(RequestTooLarge):
            await put(METRICS_TOPIC, [b"x" * (PUT_BYTES_MAX + 1)], key="a")
        with pytest.raises(RequestTooLarge):
            await put(METRICS_TOPIC, [b"x"] * (PUT_MESSAGES_MAX + 1), key="a")
        with pytest.raises(BadRequest):
            await put(METRICS_TOPIC, [], key="a")
        await put(METRICS_TOPIC, [b"x" * PUT_BYTES_MAX], key="a")


async def test_puts_at_once_make_one_topic() -> None:
    async with several("a", "b") as servers:
        for number in range(4):
            servers.placed.partitions[number] = "b" if number % 2 else "a"
        await asyncio.gather(
            *(
                servers[name].broker.system_topics.put(METRICS_TOPIC, [b"x"], key=f"{name}{number}")
                for name in "ab"
                for number in range(10)
            )
        )
        assert len(await messages_of(servers["a"].broker, METRICS_TOPIC)) == 20
        assert len(servers["a"].broker.context.topics.owned_by(SYSTEM_TENANT)) == 1


async def at_b(servers: Several) -> Any:
    """The put of server a, for a topic that b serves."""
    servers.placed.partitions = dict.fromkeys(range(4), "b")
    await servers["a"].broker.system_topics.ensure(METRICS_TOPIC)
    return servers["a"].broker.system_topics.put


async def test_another_server_stores_what_it_serves() -> None:
    async with several("a", "b") as servers:
        put = await at_b(servers)
        await put(METRICS_TOPIC, [b"\x00\xff"], key="a")
        assert servers.peers.asked == [("b", "system-put")]
        assert await messages_of(servers["b"].broker, METRICS_TOPIC) == [b"\x00\xff"]


async def test_a_partition_that_moves_is_not_served() -> None:
    async with several("a", "b") as servers:
        put = await at_b(servers)
        servers.ownership("b").known = dict.fromkeys(range(4), "a")
        with pytest.raises(PartitionNotServing, match="served by a"):
            await put(METRICS_TOPIC, [b"x"], key="a")


async def test_a_server_that_does_not_answer_leaves_it_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(system_topics, "SYSTEM_PUT", replace(SYSTEM_PUT, deadline_s=0.05))
    async with several("a", "b") as servers:
        put = await at_b(servers)
        servers.peers.hang = True
        with pytest.raises(OutcomeUnknown, match="no reply within"):
            await put(METRICS_TOPIC, [b"x"], key="a")


async def test_what_the_other_server_raises_is_raised() -> None:
    async with several("a", "b") as servers:
        put = await at_b(servers)
        servers.peers.errors["b"] = StoreUnavailable("no disk")
        with pytest.raises(StoreUnavailable, match="no disk"):
            await put(METRICS_TOPIC, [b"x"], key="a")


async def answer(made: World, arguments: dict[str, Any]) -> None:
    request = CallRequest("system-put", json.dumps(arguments).encode(), 1)
    await made.broker.peer_calls.answer(request)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"topic": METRICS_TOPIC, "partition": 0, "key": "k", "messages": ["%"]},
        {"topic": METRICS_TOPIC, "partition": "x", "key": "k", "messages": ["eA=="]},
        {"topic": METRICS_TOPIC, "partition": 0, "key": "k", "messages": 7},
        {"topic": METRICS_TOPIC, "partition": 0, "key": "k", "messages": []},
        {"topic": "orders", "partition": 0, "key": "k", "messages": ["eA=="]},
    ],
)
async def test_a_call_of_another_server_that_makes_no_sense_is_refused(
    arguments: dict[str, Any],
) -> None:
    async with world() as made:
        with pytest.raises(BadRequest):
            await answer(made, arguments)


async def test_a_partition_that_the_topic_has_not_is_not_served() -> None:
    async with world() as made:
        arguments = {"topic": METRICS_TOPIC, "partition": 4, "key": "k", "messages": ["eA=="]}
        with pytest.raises(PartitionNotServing):
            await answer(made, arguments)
