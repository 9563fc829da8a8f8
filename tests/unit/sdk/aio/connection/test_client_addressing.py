"""Where a client's requests go, over servers without sockets."""

import asyncio

import pytest
from tests.unit.sdk.fake_servers import (
    S1,
    S2,
    S3,
    TOPIC,
    FakeServers,
    client_of,
    in_turn,
    raises,
    run,
    schedule,
    stored,
    transferred,
)

from opentalos.model import errors
from opentalos.model.errors import ThrottleRejected
from opentalos.model.message import MessageBlock
from opentalos.sdk.errors import ConnectFailed
from opentalos.wire._generated import topic
from opentalos.wire._generated.topic import TOPIC_SERVICE

BLOCK = MessageBlock(b"payload", 1)


@pytest.fixture
def servers() -> FakeServers:
    found = FakeServers()
    found.on(S1, "getScheduleInfo", schedule(S1, S2))
    return found


def test_puts_go_to_the_server_of_their_partition(servers: FakeServers) -> None:
    for server in (S1, S2):
        servers.on(server, "putMessage", stored)

    async def scenario() -> None:
        client = client_of(servers)
        for partition in (0, 1, 0, 1):
            await client.put(TOPIC, partition, BLOCK)

    run(scenario())
    assert servers.count("getScheduleInfo") == 1
    assert servers.count("putMessage", S1) == servers.count("putMessage", S2) == 2


def test_without_direct_everything_goes_to_the_endpoint(servers: FakeServers) -> None:
    servers.on(S1, "putMessage", stored)
    run(client_of(servers, direct=False).put(TOPIC, 1, BLOCK))
    assert servers.requests == [(S1, "putMessage")]


def test_many_first_puts_ask_for_the_map_once(servers: FakeServers) -> None:
    servers.delay_s = 0.2
    for server in (S1, S2):
        servers.on(server, "putMessage", stored)

    async def scenario() -> None:
        client = client_of(servers)
        await asyncio.gather(*(client.put(TOPIC, number % 2, BLOCK) for number in range(40)))

    run(scenario())
    assert servers.count("getScheduleInfo") == 1
    assert servers.count("putMessage", S2) == 20


def test_a_server_without_maps_serves_everything_itself(servers: FakeServers) -> None:
    servers.on(S1, "getScheduleInfo", raises(errors.NotSupported("no maps here")))
    servers.on(S1, "putMessage", stored)

    async def scenario() -> None:
        client = client_of(servers)
        for _ in range(3):
            await client.put(TOPIC, 0, BLOCK)
            await asyncio.sleep(60)

    run(scenario())
    assert servers.count("getScheduleInfo") == 1


def test_a_forwarded_put_makes_the_map_stale(servers: FakeServers) -> None:
    maps = in_turn(schedule(S1, S1), schedule(S2, S1))
    servers.on(S1, "getScheduleInfo", maps)
    servers.on(S1, "putMessage", transferred)
    servers.on(S2, "putMessage", stored)

    async def scenario() -> None:
        client = client_of(servers)
        await client.put(TOPIC, 0, BLOCK)
        await asyncio.sleep(1.1)
        await client.put(TOPIC, 0, BLOCK)  # still to the old one; asks for the map meanwhile
        await asyncio.sleep(0.1)
        await client.put(TOPIC, 0, BLOCK)

    run(scenario())
    assert servers.count("getScheduleInfo") == 2
    assert servers.requests[-1] == (S2, "putMessage")


def test_maps_are_looked_at_once_a_second_however_many_replies_ask_for_it(
    servers: FakeServers,
) -> None:
    servers.on(S1, "getScheduleInfo", schedule(S1, S1))
    servers.on(S1, "putMessage", transferred)

    async def scenario() -> None:
        client = client_of(servers)
        for _ in range(100):
            await client.put(TOPIC, 0, BLOCK)
            await asyncio.sleep(0.05)

    run(scenario())
    assert servers.count("getScheduleInfo") <= 6


def test_a_dead_server_is_left_out_and_the_put_is_done_at_the_endpoint(
    servers: FakeServers,
) -> None:
    servers.on(S1, "putMessage", stored)  # forwards for the dead one
    run(client_of(servers).put(TOPIC, 1, BLOCK))
    assert [request for request in servers.requests if request[1] == "putMessage"] == [
        (S2, "putMessage"),
        (S1, "putMessage"),
    ]


def test_a_partition_that_moves_is_followed(servers: FakeServers) -> None:
    servers.on(S1, "getScheduleInfo", in_turn(schedule(S2, S2), schedule(S3, S2)))
    servers.on(S1, "putMessage", raises(errors.PartitionNotServing("elsewhere")))
    servers.on(S2, "putMessage", raises(errors.PartitionNotServing("moved away")))
    servers.on(S3, "putMessage", stored)
    run(client_of(servers).put(TOPIC, 0, BLOCK))
    assert servers.requests[-1] == (S3, "putMessage")


def test_a_client_outlives_its_only_configured_server(servers: FakeServers) -> None:
    servers.on(S1, "getScheduleInfo", schedule(S1, S2))
    servers.on(S1, "putMessage", in_turn(stored, raises(ConnectFailed("refused"))))
    servers.on(S2, "putMessage", stored)
    servers.on(S2, "getScheduleInfo", schedule(S2, S2))

    async def scenario() -> None:
        client = client_of(servers)
        await client.put(TOPIC, 0, BLOCK)
        servers.on(S1, "getScheduleInfo", raises(ConnectFailed("refused")))
        await client.put(TOPIC, 0, BLOCK)

    run(scenario())
    assert servers.requests[-1] == (S2, "putMessage")


def test_the_next_endpoint_is_used_after_one_that_does_not_answer(servers: FakeServers) -> None:
    found = topic.ListTopicsResponse(topicInfos=[])
    servers.on(S2, "listTopics", lambda _: found)

    async def scenario() -> None:
        client = client_of(servers, S3, S2)
        for _ in range(3):
            await client.call(TOPIC_SERVICE, "listTopics", None)

    run(scenario())
    assert servers.requests == [(S3, "listTopics")] + [(S2, "listTopics")] * 3


def test_an_endpoint_that_refuses_a_request_is_not_left(servers: FakeServers) -> None:
    found = topic.ListTopicsResponse(topicInfos=[])
    servers.on(S1, "listTopics", in_turn(raises(ThrottleRejected("x")), lambda _: found))
    run(client_of(servers, S1, S2).call(TOPIC_SERVICE, "listTopics", None))
    assert servers.count("listTopics", S2) == 0
