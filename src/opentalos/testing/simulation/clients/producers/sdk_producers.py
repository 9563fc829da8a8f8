"""Producers of the real SDK, whose requests reach simulated servers by a transport without sockets.

Above the transport everything is the SDK's own code: stamps, retries, deadlines, new epochs.
"""

import asyncio
import itertools
import random
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from opentalos.broker.broker import Broker
from opentalos.gateway.thrift_http.errors import form_of, text_of
from opentalos.gateway.thrift_http.handlers.context import CallContext
from opentalos.gateway.thrift_http.handlers.messages import put_message
from opentalos.model.errors import OutcomeUnknown, TalosError
from opentalos.model.message import PRODUCER_ID_MAX
from opentalos.sdk.aio import Client as SdkClient
from opentalos.sdk.aio import SimpleProducer
from opentalos.sdk.aio.connection.caller import Caller
from opentalos.sdk.aio.connection.transport import Transport
from opentalos.sdk.aio.producer.lanes import Lanes
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.operation import Reply
from opentalos.sdk.errors import ConnectFailed, NoReply
from opentalos.testing.simulation.clients import payload
from opentalos.testing.simulation.clients.message_clients import LiveTopic, Producer
from opentalos.testing.simulation.clients.topics.one_topic import one_topic_workload
from opentalos.testing.simulation.world.server import ServerLost, UnansweredBug
from opentalos.testing.simulation.world.world import World
from opentalos.wire._generated import message, topic
from opentalos.wire._generated.common import ErrorCode, GalaxyTalosException, Version
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire.message import Place, decode_records
from opentalos.wire.thrift import ThriftProtocol, decode_call, encode_error, encode_reply

PRODUCERS: Final = 3
TASKS: Final = 2  # that put with one producer at the same time
DEADLINE_S: Final = 20.0  # of a put with its retries
HURRIED: Final = 0.3  # of puts: their caller waits for a part of HURRY_S only
HURRY_S: Final = 0.5
VERSION: Final = "opentalos simulated"
_URL: Final = "http://simulated:1"
_WIRE: Final = ThriftProtocol.COMPACT


class SimulatedTransport(Transport):
    """Takes requests to a server of the world, and brings back its reply, or none."""

    def __init__(self, config: ClientConfig, owner: Producer, live: LiveTopic) -> None:
        super().__init__(config)
        self._owner, self._live = owner, live

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> Reply:
        """See Transport."""
        path = urlsplit(url).path
        service = next(found for found in SERVICES.values() if found.path == path)
        call = decode_call(_WIRE, service, body)
        try:
            result = await self._answer(call.method.name, call.request, timeout_s)
        except (ServerLost, UnansweredBug) as error:
            raise NoReply(f"no reply: {error}") from error
        except TalosError as error:
            form = form_of(error)
            sent = GalaxyTalosException(errorCode=ErrorCode(form.code), errMsg=text_of(error, form))
            return _reply(form.status, encode_error(_WIRE, call.method, call.seqid, sent))
        return _reply(200, encode_reply(_WIRE, call.method, call.seqid, result))

    async def _answer(self, method: str, request: Any, timeout_s: float) -> Any:
        if method == "getServiceVersion":
            return Version(minor=0, revision=0, details=VERSION)
        if method == "getTopicAttribute":
            return topic.GetTopicAttributeResponse(
                topicTalosResourceName=topic.TopicTalosResourceName(
                    topicTalosResourceName=self._live.resource
                ),
                topicAttribute=topic.TopicAttribute(partitionNumber=self._live.partitions),
            )
        assert method == "putMessage", method
        server = self._owner.world.pick(self._owner.rng)
        if server is None:
            raise ConnectFailed("connection refused: no server runs")
        self._name_messages(request)
        caller = self._owner.caller(self._live)

        async def put(broker: Broker) -> message.PutMessageResponse:
            return await put_message(broker, caller, request, CallContext(peer="simulated"))

        return await server.call("put", put, timeout_s=timeout_s)

    @staticmethod
    def _name_messages(request: message.PutMessageRequest) -> None:
        """Replace the payload by one that the checker reads, with the ids in the messages."""
        (block,) = request.messageBlocks
        count = block.messageNumber
        kind, place = int(block.compressionType), Place("", 0, 0, 0)
        records = decode_records(block.messageBlock, kind, count, count, place)
        block.messageBlock = payload.encode([record.data.decode() for record in records])
        block.messageBlockSize = len(block.messageBlock)
        block.compressionType = message.MessageCompressionType.NONE

    async def close(self) -> None:
        """Nothing is open."""


def _reply(status: int, body: bytes) -> Reply:
    return Reply(status, {"Content-Type": _WIRE.value}, body)


class SimulatedSdkClient(SdkClient):
    """A client of the SDK in the simulated world; its pauses are drawn from the seed."""

    def __init__(self, owner: Producer, live: LiveTopic) -> None:
        loop = owner.world.loop
        config = ClientConfig(
            endpoints=(_URL,), key_id="simulated", secret="simulated", direct=False,
            request_timeout_s=owner.world.config.call_s, deadline_s=DEADLINE_S,
        )  # fmt: skip
        super().__init__(config, wall_s=loop.time)
        rng: random.Random = owner.world.rng(f"{owner.name} pauses")
        self._caller = Caller(config, loop.time, rng.random)
        self._caller.transport = SimulatedTransport(config, owner, live)


class SimulatedSimpleProducer(SimpleProducer):
    """A SimpleProducer whose ids are drawn from the seed, since they are part of the log."""

    def __init__(self, client: SdkClient, name: str, rng: random.Random) -> None:
        super().__init__(client, name)
        self._lanes = Lanes(lambda: rng.randint(1, PRODUCER_ID_MAX))


class SdkProducer(Producer):
    """Puts with one SimpleProducer from several tasks; every put is to be stored at most once."""

    async def run(self) -> None:
        """Until cancelled."""
        live = self.topics[0]
        client = SimulatedSdkClient(self, live)
        producer = SimulatedSimpleProducer(client, live.name, self.world.rng(f"{self.name} ids"))
        await asyncio.gather(*[self._put_all(producer, live) for _ in range(TASKS)])

    async def _put_all(self, producer: SimpleProducer, live: LiveTopic) -> None:
        for turn in itertools.count():
            await self.think()
            ids, partition = self.new_ids(), turn % live.partitions
            put = self.world.recorder.invoke(
                self.name, "put", topic=live.resource, partition=partition, ids=ids,
                tenant=live.owner.id, idempotent=True,
            )  # fmt: skip
            hurry = self.rng.random() < HURRIED
            try:
                async with asyncio.timeout(HURRY_S * self.rng.random() if hurry else None):
                    stored = await producer.put(
                        [each.encode() for each in ids], partition=partition
                    )
            except (OutcomeUnknown, TimeoutError) as error:
                self.world.recorder.unknown(put, f"{type(error).__name__}: {error}")
            except TalosError as error:
                self.world.recorder.fail(put, f"{type(error).__name__}: {error}")
            else:
                at = {} if stored.base_offset is None else {"offset": stored.base_offset}
                self.world.recorder.ok(put, **at)


async def sdk_workload(world: World) -> None:
    """See one_topic_workload."""
    await one_topic_workload(
        world, lambda topics: [SdkProducer(world, f"sdk{n}", topics) for n in range(PRODUCERS)]
    )
