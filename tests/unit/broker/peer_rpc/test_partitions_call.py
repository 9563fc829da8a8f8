"""What other servers may ask about partitions, and how a wrong request is refused."""

import json
from typing import Any

import pytest
from tests.unit.broker.several import Several, several
from tests.unit.catalog.support import ALICE

from opentalos.broker.peer_rpc.calls import PROTOCOL_VERSION
from opentalos.model.errors import BadRequest, NotSupported, TopicNotExist
from opentalos.ports.peers import CallRequest


def _request(**fields: object) -> dict[str, Any]:
    asked = {"topic": "a#b#c", "partitions": [0], "wanted": "offsets", "times": [0]}
    return {**asked, **fields}


@pytest.mark.parametrize(
    ("call", "arguments", "error"),
    [
        ("else", {}, NotSupported),
        ("partitions", {}, BadRequest),
        ("partitions", _request(topic=1), BadRequest),
        ("partitions", _request(partitions=[True]), BadRequest),
        ("partitions", _request(partitions=[-1]), BadRequest),
        ("partitions", _request(partitions=[0, 1]), BadRequest),
        ("partitions", _request(times="1"), BadRequest),
        ("partitions", _request(wanted="all"), BadRequest),
        ("partitions", _request(), TopicNotExist),
    ],
)
async def test_calls_of_peers_are_checked(call: str, arguments: Any, error: Any) -> None:
    async with several("a") as s:
        with pytest.raises(error):
            await _answer(s, "a", call, arguments)


async def test_a_server_answers_peers_only_for_what_it_serves() -> None:
    async with several("a", "b") as s:
        topic = await s.show(await s["a"].topic(ALICE, partitions=3))
        s.placed.partitions.update({0: "a", 1: "b", 2: ""})
        await s["b"].put(ALICE, topic, 1, 20)
        request = _request(topic=topic.resource, partitions=[0, 1, 2], times=[0, 0, 0])
        answer = await _answer(s, "b", "partitions", request)
        by_number = {fact["partition"]: fact for fact in answer["partitions"]}
        assert by_number[1]["offsets"] == [0, 20]
        assert [by_number[n]["error"] for n in (0, 2)] == ["NotOwner", "PartitionNotServing"]
        with pytest.raises(BadRequest):
            await _answer(s, "b", "partitions", {**request, "partitions": [1, 2, 3]})


async def _answer(s: Several, name: str, call: str, arguments: dict[str, Any]) -> dict[str, Any]:
    request = CallRequest(call, json.dumps(arguments).encode(), PROTOCOL_VERSION)
    return dict(json.loads(await s[name].broker.peer_calls.answer(request)))
