"""Calls handlers as the dispatcher does: through the codec, against a broker in memory."""

from dataclasses import replace
from typing import Any

from tests.unit.broker.support import World

from opentalos.gateway.thrift_http.handlers import HANDLERS
from opentalos.gateway.thrift_http.handlers.context import CallContext
from opentalos.model.identity import Principal
from opentalos.wire._generated import topic
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire.thrift import (
    ThriftProtocol,
    decode_call,
    decode_reply,
    encode_call,
    encode_reply,
)

ALICE = Principal(id="alice", number=1)
BOB = Principal(id="bob", number=2)
ORG = Principal(id="olga", number=3, organisation="CL1", team="CI1")
ADMIN = Principal(id="root", number=9, admin=True)
CONTEXT = CallContext(peer="10.0.0.7")


class Client:
    """One caller's view of a broker."""

    def __init__(self, world: World, caller: Principal = ALICE, context: Any = CONTEXT) -> None:
        self._world, self._caller, self._context = world, caller, context

    def hinted(self, rpc: str) -> "Client":
        """The same with another ``type`` parameter in the URL."""
        return Client(self._world, self._caller, replace(self._context, rpc_hint=rpc))

    async def __call__(self, service: str, rpc: str, *request: Any) -> Any:
        """Result of an RPC after both directions of the wire. Raises what the handler raises."""
        protocol, spec = ThriftProtocol.COMPACT, SERVICES[service]
        method = spec.methods[rpc]
        call = decode_call(protocol, spec, encode_call(protocol, method, 1, *request))
        handler = HANDLERS[service][rpc]
        result = await handler(self._world.broker, self._caller, call.request, self._context)
        return decode_reply(protocol, method, encode_reply(protocol, method, 1, result)).result

    async def create(self, name: str = "clicks", partitions: int = 2) -> topic.TopicInfo:
        """Create a topic."""
        attribute = topic.TopicAttribute(partitionNumber=partitions)
        request = topic.CreateTopicRequest(topicName=name, topicAttribute=attribute)
        info: topic.TopicInfo = (await self("TopicService", "createTopic", request)).topicInfo
        return info


def partition_of(info: topic.TopicInfo, partition: int = 0) -> topic.TopicAndPartition:
    """A partition of a topic."""
    return topic.TopicAndPartition(
        topicName=info.topicName,
        topicTalosResourceName=info.topicTalosResourceName,
        partitionId=partition,
    )
