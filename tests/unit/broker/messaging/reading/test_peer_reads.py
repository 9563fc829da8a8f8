"""Blocks of another server's partitions: as they are stored, or an honest refusal."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.broker.support import World, world

from opentalos.broker.messaging.messages import GetQuery
from opentalos.broker.messaging.reading import peer_reads as remote_messages
from opentalos.broker.messaging.reading.peer_reads import RemoteMessages
from opentalos.broker.peer_rpc.calls import MESSAGES
from opentalos.broker.peer_rpc.messages import MessagesRequest
from opentalos.broker.values import Topic
from opentalos.model.errors import (
    BadRequest,
    OffsetOutOfRange,
    PartitionNotServing,
    TopicNotExist,
)
from opentalos.model.identity import Principal
from opentalos.ports.peers import CallRequest

EVE = Principal(id="eve", number=1)


class Peers:
    """One other server, which answers from this very broker, or as the test says."""

    def __init__(self, made: World, answer: Any = None) -> None:
        self._made, self._answer = made, answer

    async def ask(self, address: str, request: CallRequest) -> bytes:
        if self._answer is not None:
            answer = await self._answer() if callable(self._answer) else self._answer
            return json.dumps(answer).encode()
        assert (address, request.call) == ("h:1", MESSAGES.name)
        return await self._made.broker.peer_calls.answer(request)


def remote(made: World, answer: Any = None) -> RemoteMessages:
    context = made.broker.context
    peers: Any = Peers(made, answer)
    context.peers = peers
    return RemoteMessages(context)


def query(topic: Topic, offset: int) -> GetQuery:
    return GetQuery(topic.resource, 0, offset, 100, 1 << 20)


async def test_blocks_come_as_they_are_stored() -> None:
    async with world() as made:
        topic = await made.topic(EVE)
        for count in (2, 3):
            await made.put(EVE, topic, 0, count)
        stored = await made.broker.messages.get(EVE, query(topic, 1))
        blocks, unhandled = await remote(made).read("h:1", query(topic, 1))
        assert [bytes(block.payload) for block in blocks] == [b"xx", b"xxx"]
        assert [block._replace(payload=b"", extras=b"") for block in blocks] == [
            block._replace(payload=b"", extras=b"") for block in stored.blocks
        ]
        assert unhandled == 0
        with pytest.raises(OffsetOutOfRange):
            await remote(made).read("h:1", query(topic, 9))


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"blocks": [{}], "unhandled": 0},
        {"blocks": 5},
        {"blocks": [{"payload": "%", "extras": ""}], "unhandled": 0},
    ],
)
async def test_an_answer_of_no_meaning_is_not_served(answer: Any) -> None:
    async with world() as made:
        topic = await made.topic(EVE)
        with pytest.raises(PartitionNotServing):
            await remote(made, answer).read("h:1", query(topic, 0))


async def test_a_server_that_does_not_answer_is_not_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_messages, "MESSAGES", replace(MESSAGES, deadline_s=0.01))
    async with world() as made:
        topic = await made.topic(EVE)
        with pytest.raises(PartitionNotServing):
            await remote(made, asyncio.Event().wait).read("h:1", query(topic, 0))


async def test_a_request_of_no_meaning_is_refused() -> None:
    async with world() as made:
        odd = CallRequest(MESSAGES.name, b'{"odd":1}', 0)
        with pytest.raises(BadRequest, match="resource"):
            await made.broker.peer_calls.answer(odd)
        with pytest.raises(TopicNotExist):
            await remote(made).answer(MessagesRequest("eve#t#u", 0, 0, 1, 1))
