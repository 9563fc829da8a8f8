"""Every request that is served, with arrays as large as they come: no step of the loop is long."""

import asyncio
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.loop_steps import CALLS_MAX, Beside, LoopSteps
from tests.unit.broker.support import World, world
from tests.unit.catalog.support import ALICE

from opentalos.broker.groups.kafka.offsets import Committer, OffsetToCommit
from opentalos.broker.groups.kafka.requests import JoinRequest, MemberId
from opentalos.broker.messaging.messages import PutTarget
from opentalos.broker.messaging.reading.offset_queries import OffsetQueries
from opentalos.broker.values import Topic
from opentalos.gateway.kafka.call import ClientSession, KafkaCall
from opentalos.gateway.kafka.connection import KafkaConnection
from opentalos.gateway.kafka.fetch_sessions import FetchSessions
from opentalos.gateway.kafka.gateway import KafkaGateway, Services
from opentalos.gateway.kafka.handlers import TABLE
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.model.identity import Permission
from opentalos.model.message import MessageBlock
from opentalos.model.settings.kafka import KafkaGroupLimits, KafkaSettings
from opentalos.wire.kafka._generated.consumer_group_heartbeat_request import (
    ConsumerGroupHeartbeatRequest,
)
from opentalos.wire.kafka._generated.describe_groups_request import DescribeGroupsRequest
from opentalos.wire.kafka._generated.describe_topic_partitions_request import (
    DescribeTopicPartitionsRequest,
)
from opentalos.wire.kafka._generated.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from opentalos.wire.kafka._generated.list_groups_request import ListGroupsRequest
from opentalos.wire.kafka._generated.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from opentalos.wire.kafka._generated.metadata_request import MetadataRequest
from opentalos.wire.kafka._generated.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from opentalos.wire.kafka.apis import SIZE, Api, ApiKey, api_of, read_response, write_request
from opentalos.wire.kafka.codec import Cursor
from opentalos.wire.kafka.errors import ErrorCode
from opentalos.wire.kafka.spec import Field, KafkaStruct, StructSpec, includes
from opentalos.wire.message.kafka_batch import HEAD, LENGTH_END, BatchHead
from opentalos.wire.message.kafka_format import decode_kafka_block
from opentalos.wire.message.message import Message
from opentalos.wire.message.talos_format import encode_messages

MANY = 2_000  # items, so that four calls for each exceed a piece
PARTITIONS = 40
GIVEN_UP_S = 600.0
PASSES_MAX = 500  # in which a target is decided
TOPIC = "orders"
HEARTBEAT = ApiKey.CONSUMER_GROUP_HEARTBEAT

# Fields with a meaning; others get a value of their type.
SMALL_NUMBERS = ("partition_index", "partition", "index", "partitions", "partition_indexes")
TOPICS = ("name", "topic", "topics", "topic_names", "subscribed_topic_names", "resource_name")


class Filled:
    """A request in which the array at this place has many items, and all others one."""

    def __init__(self, version: int, large: str, known: bool) -> None:
        self._version, self._large, self._known, self._count = version, large, known, 0

    def struct(self, spec: StructSpec, path: str = "") -> KafkaStruct:
        found = {
            each.name: self._value(each, f"{path}/{each.name}")
            for each in spec.fields
            if includes(each.versions, self._version) and each.tag is None
        }
        return cast(KafkaStruct, spec.make(**found))

    def _value(self, field: Field, path: str) -> Any:
        item = field.type.item
        if item is not None:
            many = range(MANY if path == self._large else 1)
            if item.struct is not None:
                spec = item.struct.SPEC
                return [self.struct(spec, path) for _ in many]
            return [self._plain(item.name, field.name) for _ in many]
        if field.type.struct is not None:
            return self.struct(field.type.struct.SPEC, path)
        return self._plain(field.type.name, field.name)

    def _plain(self, kind: str, name: str) -> Any:
        self._count += 1
        if kind == "string":
            if name in TOPICS:
                return TOPIC if self._known else f"missing{self._count}"
            if name in ("transactional_id", "group_instance_id", "instance_id", "rack_id"):
                return None if name != "rack_id" else ""
            if name in ("protocol_type", "server_assignor", "subscribed_topic_regex"):
                return "" if name == "protocol_type" else None
            if name == "member_id" and not self._known:
                return ""
            return f"x{self._count}"
        if kind == "uuid":
            return bytes(16)
        if kind in ("bytes", "records"):
            return b""
        if kind == "bool":
            return False
        if name in SMALL_NUMBERS:
            return self._count % PARTITIONS
        return {"resource_type": 2, "generation_id": -1, "acks": -1}.get(name, 1)


def arrays_of(spec: StructSpec, version: int, path: str = "") -> Iterator[str]:
    for each in spec.fields:
        if not includes(each.versions, version) or each.tag is not None:
            continue
        place, item = f"{path}/{each.name}", each.type.item
        inner = each.type.struct if item is None else item.struct
        if item is not None:
            yield place
        if inner is not None:
            yield from arrays_of(inner.SPEC, version, place)


def names_topics(spec: StructSpec) -> bool:
    """Whether it matters if topics exist."""
    inner = [each.type.item or each.type for each in spec.fields]
    return any(each.name in TOPICS for each in spec.fields) or any(
        names_topics(kind.struct.SPEC) for kind in inner if kind.struct is not None
    )


LARGE = [
    (key, place, known)
    for key in TABLE
    for place in arrays_of(api_of(key).request.SPEC, TABLE[key].versions[1])
    for known in (True, False)[: 1 + names_topics(api_of(key).request.SPEC)]
]


class Client:
    """One connection without a socket."""

    def __init__(self, w: World) -> None:
        self.services = cast(
            Services,
            SimpleNamespace(
                broker=w.broker,
                port=KafkaPort(KafkaSettings(), lambda port: cast(Any, None)),
                cluster="c",
                versions={key: served.versions for key, served in TABLE.items()},
                fetch_sessions=FetchSessions(),
            ),
        )
        self.gateway = KafkaGateway(self.services, TABLE)
        self.session = ClientSession(
            peer="127.0.0.1", network="", private=True, caller=ALICE, authenticated=True
        )
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answered(self, call: KafkaCall, pieces: list[Any]) -> None:
        if not self.answer.done():
            self.answer.set_result(pieces)

    async def ask(self, frame: memoryview) -> list[Any]:
        connection = cast(KafkaConnection, self)
        call = self.gateway.decode(frame, self.session, connection)
        if call is None:
            call = await self.gateway.decode_long(frame, self.session, connection)
        self.gateway.start(call)
        async with asyncio.timeout(GIVEN_UP_S):
            return cast(list[Any], await self.answer)


@pytest.mark.parametrize(
    ("key", "place", "known"), LARGE, ids=lambda value: str(getattr(value, "name", value))
)
async def test_no_request_holds_the_loop(key: ApiKey, place: str, known: bool) -> None:
    api, version, steps = api_of(key), TABLE[key].versions[1], LoopSteps()
    request = Filled(version, place, known).struct(api.request.SPEC)
    frame = memoryview(write_request(api, version, request, 7, "c"))[SIZE.size :]
    limits = KafkaGroupLimits(initial_delay_s=0.0)
    async with world(offload=Beside(steps), kafka_group=limits) as w:
        await w.topic(ALICE, TOPIC, partitions=PARTITIONS)
        client = Client(w)
        with steps:
            async with steps.labelled(f"{key.name} {place}"):
                pieces = await client.ask(frame)
        assert steps.largest.calls <= CALLS_MAX, str(steps.largest)
        if pieces:
            read_response(api, version, Cursor(b"".join(pieces), SIZE.size))


MANY_TOPICS, MANY_MEMBERS = 1_200, 400


def many_acls() -> KafkaStruct:
    spec = api_of(ApiKey.DESCRIBE_ACLS).request.SPEC
    any_of = {field.name: 1 if field.type.name == "int8" else None for field in spec.fields}
    return cast(KafkaStruct, spec.make(**any_of))


CROWDED: dict[str, tuple[ApiKey, Callable[[], KafkaStruct]]] = {
    "all topics": (ApiKey.METADATA, lambda: MetadataRequest(topics=None)),
    "partitions of all topics": (
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        lambda: DescribeTopicPartitionsRequest(response_partition_limit=2_000),
    ),
    "all groups": (ApiKey.LIST_GROUPS, ListGroupsRequest),
    "a group with many members": (
        ApiKey.DESCRIBE_GROUPS, lambda: DescribeGroupsRequest(groups=["many"])
    ),
    "all positions of a group": (
        ApiKey.OFFSET_FETCH,
        lambda: OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="many", topics=None)]),
    ),
    "all permissions": (ApiKey.DESCRIBE_ACLS, many_acls),
}  # fmt: skip


async def crowd(w: World) -> None:
    """Many topics, each with a group of its own and a grant, and a group with many members."""
    caller, offsets = ALICE, w.broker.kafka_groups.offsets
    for number in range(MANY_TOPICS):
        topic = await w.topic(caller, f"t{number}", partitions=2)
        await w.broker.permissions.grant_more(caller, topic.resource, "bob", Permission.GET_MESSAGE)
        for group in ("many", f"g{number}"):
            committer = Committer(group=group, who=MemberId(""), generation=-1)
            await offsets.commit(caller, committer, [OffsetToCommit(topic, 0, 0, "text")])
    joining = [
        asyncio.ensure_future(
            w.broker.kafka_groups.members.join(
                caller,
                "many",
                JoinRequest(
                    who=MemberId(""),
                    client_id="c",
                    host="h",
                    session_s=1_000.0,
                    rebalance_s=1_000.0,
                    protocol_type="other",
                    protocols=(("range", b"metadata"),),
                    fresh_id="",
                ),
            )
        )
        for _ in range(MANY_MEMBERS)
    ]
    await asyncio.gather(*joining)


async def test_no_answer_holds_the_loop() -> None:
    steps = LoopSteps()
    async with world(offload=Beside(steps), kafka_group=KafkaGroupLimits(initial_delay_s=0.0)) as w:
        await crowd(w)
        answers: dict[Api, list[Any]] = {}
        with steps:
            for name, (key, request) in CROWDED.items():
                api, version = api_of(key), TABLE[key].versions[1]
                frame = memoryview(write_request(api, version, request(), 7, "c"))[SIZE.size :]
                client = Client(w)
                async with steps.labelled(name):
                    answers[api] = await client.ask(frame)
        for api, pieces in answers.items():
            version = TABLE[api.key].versions[1]
            _, answer = read_response(api, version, Cursor(b"".join(pieces), SIZE.size))
            assert not getattr(answer, "error_code", 0), answer
        assert steps.largest.calls <= CALLS_MAX, steps.table()


async def beat(w: World, epoch: int, names: list[str] | None) -> list[Any]:
    """A heartbeat of the only member of a group."""
    request = ConsumerGroupHeartbeatRequest(
        group_id="all",
        member_id="m",
        member_epoch=epoch,
        subscribed_topic_names=names,
        rebalance_timeout_ms=9_000,
        topic_partitions=None if epoch else [],
    )
    api, version = api_of(HEARTBEAT), TABLE[HEARTBEAT].versions[1]
    frame = memoryview(write_request(api, version, request, 7, "c"))[SIZE.size :]
    return await Client(w).ask(frame)


async def test_a_member_that_is_given_thousands_of_partitions() -> None:
    steps, topics, partitions = LoopSteps(), 16, 250
    async with world(offload=Beside(steps)) as w:
        names = [f"t{number}" for number in range(topics)]
        for name in names:
            await w.topic(ALICE, name, partitions=partitions)
        with steps:
            await beat(w, 0, names)
            machine = cast(Any, w.broker.kafka_groups.groups.of_tenant("alice")["all"]).machine
            for _ in range(PASSES_MAX):
                await asyncio.sleep(0)
            await beat(w, machine.members["m"].epoch, None)
        assert len(machine.members["m"].assigned) == topics * partitions
        assert steps.largest.calls <= CALLS_MAX, str(steps.largest)


async def fetch(client: Client, names: list[str], session: int = 0, epoch: int = 0) -> Any:
    """Ask for a partition of each topic."""
    topics = [
        FetchTopic(topic=name, partitions=[FetchPartition(partition=0, partition_max_bytes=1)])
        for name in names
    ]
    request = FetchRequest(topics=topics, session_id=session, session_epoch=epoch)
    api = api_of(ApiKey.FETCH)
    frame = memoryview(write_request(api, 12, request, 7, "c"))[SIZE.size :]
    client.answer = asyncio.get_running_loop().create_future()
    pieces = await client.ask(frame)
    return read_response(api, 12, Cursor(b"".join(pieces), SIZE.size))[1]


async def test_sessions_do_not_keep_many_names_of_topics_that_do_not_exist() -> None:
    async with world() as w:
        await w.topic(ALICE, TOPIC)
        client = Client(w)
        missing = [f"missing-{number}" for number in range(2_000)]
        assert (await fetch(client, [TOPIC, *missing[:100]])).session_id
        assert not (await fetch(client, [TOPIC, *missing])).session_id
        opened = await fetch(client, [TOPIC])
        refused = await fetch(client, missing, opened.session_id, 1)
        assert refused.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert (await fetch(client, [], opened.session_id, 2)).error_code == refused.error_code


async def test_a_request_that_repeats_a_search_by_time_makes_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched = 0
    search = OffsetQueries.at_time

    async def counted(*args: Any) -> Any:
        nonlocal searched
        searched += 1
        return await search(*args)

    monkeypatch.setattr(OffsetQueries, "at_time", counted)
    async with world() as w:
        await w.topic(ALICE, TOPIC)
        part = ListOffsetsPartition(partition_index=0, timestamp=5)
        topics = [ListOffsetsTopic(name=TOPIC, partitions=[part] * 300)]
        api = api_of(ApiKey.LIST_OFFSETS)
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        pieces = await Client(w).ask(
            memoryview(write_request(api, 7, request, 7, "c"))[SIZE.size :]
        )
        answer = read_response(api, 7, Cursor(b"".join(pieces), SIZE.size))[1]
        assert len(answer.topics[0].partitions) == 300
    assert searched == 1


async def store(w: World, topic: Topic, block: MessageBlock) -> None:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    target = PutTarget(topic.resource, 0)
    w.broker.messages.put(ALICE, target, [block], lambda _, error: done.set_result(error))
    assert await done is None


async def test_a_fetch_of_many_small_and_of_large_messages() -> None:
    steps, threads = LoopSteps(), list[str]()

    class Counted(Beside):
        async def run(self, work: Callable[..., Any], *args: Any) -> Any:
            threads.append(work.__name__)
            return await super().run(work, *args)

    sizes = [[1] * 2_000] * 3 + [[100_000] * 4] + [[2 << 20]]
    async with world(offload=Counted(steps)) as w:
        topic = await w.topic(ALICE, TOPIC)
        for each in sizes:
            data = encode_messages([Message(bytes(size)) for size in each], 1)
            await store(w, topic, MessageBlock(data, len(each)))
        api, version = api_of(ApiKey.FETCH), 12
        request = FetchRequest(
            max_bytes=32 << 20,
            topics=[
                FetchTopic(
                    topic=TOPIC,
                    partitions=[FetchPartition(partition=0, partition_max_bytes=32 << 20)],
                )
            ],
        )
        frame = memoryview(write_request(api, version, request, 7, "c"))[SIZE.size :]
        client = Client(w)
        with steps:
            pieces = await client.ask(frame)
    assert steps.largest.calls <= CALLS_MAX, str(steps.largest)
    assert threads.count("_encoded") == 1
    _, answer = read_response(api, version, Cursor(b"".join(pieces), SIZE.size))
    rest, found = memoryview(answer.responses[0].partitions[0].records), list[int]()
    while rest:
        head = BatchHead._make(HEAD.unpack_from(rest))
        end = LENGTH_END + head.length
        assert head.base_offset == len(found)
        batch = b"K\0\0\0" + struct.pack(">I", end) + rest[:end]
        found += [len(message.data) for message in decode_kafka_block(batch, head.records)]
        rest = rest[end:]
    assert found == [size for each in sizes for size in each]
