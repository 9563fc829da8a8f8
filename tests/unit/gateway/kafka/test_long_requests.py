"""Requests and answers with many items: their order, their memory, and how they end."""

import asyncio
import math
import struct
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.loop_steps import works_for
from tests.unit.catalog.support import ALICE

from opentalos.broker.long_work import TURNS_MAX, LongWork
from opentalos.gateway.kafka.call import ClientSession, KafkaCall, Received
from opentalos.gateway.kafka.connection import KafkaConnection
from opentalos.gateway.kafka.fetch_sessions import (
    EPOCH_FIRST,
    NO_SESSION,
    PLACES_MAX,
    PLACES_OF_TENANT_MAX,
    SESSIONS_OF_TENANT_MAX,
    FetchSessions,
    RefusedSession,
    Wanted,
)
from opentalos.gateway.kafka.gateway import (
    ENDS_WITH_CLIENT,
    KafkaGateway,
    Served,
    Services,
)
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.gateway.kafka.mechanisms import DerivedKeys
from opentalos.model.errors import StoreUnavailable
from opentalos.model.identity import Principal
from opentalos.model.settings.kafka import KafkaSettings
from opentalos.wire.kafka import codec
from opentalos.wire.kafka._generated.describe_groups_request import DescribeGroupsRequest
from opentalos.wire.kafka._generated.describe_groups_response import (
    DescribedGroup,
    DescribeGroupsResponse,
)
from opentalos.wire.kafka.apis import SIZE, ApiKey, RequestHeader, api_of, write_request
from opentalos.wire.kafka.spec import KafkaStruct

VERSION = 5


class Wire:
    """The transport of a client."""

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.closed = False

    def get_extra_info(self, _name: str) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    def writelines(self, pieces: Any) -> None:
        self.written += pieces

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True


class Beside:
    """A thread that works when it is let."""

    def __init__(self) -> None:
        self.let, self.stopped = asyncio.Event(), False
        self.let.set()

    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        await self.let.wait()
        if self.stopped:
            raise StoreUnavailable("the server stops")
        return work(*args)

    def yield_lock(self) -> None: ...


class Server:
    """A gateway that answers DescribeGroups, and one connection to it."""

    def __init__(self, caller: Principal = ALICE) -> None:
        self.beside, self.names, self.fails_at = Beside(), list[int](), -1
        self.begins, self.worked_for = asyncio.Event(), list[str]()
        self.begins.set()
        self.port = KafkaPort(KafkaSettings(), lambda _: asyncio.BaseProtocol())
        broker = SimpleNamespace(work=LongWork(self.beside, 1))
        authenticator = SimpleNamespace(anonymous=False)
        services = SimpleNamespace(
            broker=broker, port=self.port, authenticator=authenticator, certificates=None
        )
        table = {ApiKey.DESCRIBE_GROUPS: Served(self.describe, (0, VERSION))}
        self.gateway = KafkaGateway(cast(Services, services), table)
        self.connection, self.wire = KafkaConnection(self.port, self.gateway), Wire()
        self.connection.connection_made(cast(asyncio.Transport, self.wire))
        session = self.connection.session
        session.caller, session.authenticated = caller, True

    async def describe(self, _services: Services, call: KafkaCall) -> KafkaStruct:
        if len(self.names) == self.fails_at:
            raise ValueError("no answer can say this")
        self.names.append(len(call.request.groups))
        self.worked_for.append(works_for())
        await self.begins.wait()
        groups = [DescribedGroup(group_id=name) for name in call.request.groups]
        return DescribeGroupsResponse(groups=groups)

    def send(self, *counts: int, cut: int = 0) -> None:
        """Requests with so many names."""
        for number, count in enumerate(counts):
            names = [f"g{each}" for each in range(count)]
            frame = bytes(
                write_request(
                    api_of(ApiKey.DESCRIBE_GROUPS),
                    VERSION,
                    DescribeGroupsRequest(groups=names),
                    number,
                )
            )
            if cut:
                frame = struct.pack(">i", len(frame) - SIZE.size - cut) + frame[SIZE.size : -cut]
            while frame:
                buffer = self.connection.get_buffer(len(frame))
                part, frame = frame[: len(buffer)], frame[len(buffer) :]
                buffer[: len(part)] = part
                self.connection.buffer_updated(len(part))

    def announce(self, size: int) -> None:
        """The beginning of a request."""
        self.connection.get_buffer(SIZE.size)[: SIZE.size] = struct.pack(">i", size)
        self.connection.buffer_updated(SIZE.size)

    async def settle(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)

    @property
    def answered(self) -> list[int]:
        """Numbers of the requests, in the order of their answers."""
        return [struct.unpack_from(">i", piece, SIZE.size)[0] for piece in self.wire.written]


async def test_answers_have_the_order_of_requests_also_behind_a_long_one() -> None:
    server = Server()
    server.beside.let.clear()
    server.send(1, 5_000, 1, 3_000, 2)
    await server.settle()
    assert server.names == [1], "what follows a long request is not read before it"
    server.beside.let.set()
    await server.settle()
    assert server.names == [1, 5_000, 1, 3_000, 2]
    assert server.worked_for == ["alice"] * 5
    assert server.answered == [0, 1, 2, 3, 4]
    assert server.port.memory.bytes == 0


async def test_the_items_of_a_long_request_count_as_memory_until_its_answer() -> None:
    server = Server()
    server.beside.let.clear()
    server.send(5_000)
    before = server.port.memory.bytes
    server.beside.let.set()
    taken = set()
    for _ in range(50):
        await asyncio.sleep(0)
        taken.add(server.port.memory.bytes)
    assert max(taken) >= before + 5_000 * 100
    assert server.port.memory.bytes == 0


async def test_a_connection_that_ends_while_its_request_is_read_leaves_nothing() -> None:
    server = Server()
    server.beside.let.clear()
    server.send(5_000, 1)
    await server.settle()
    server.connection.connection_lost(None)
    server.beside.let.set()
    await server.settle()
    assert server.names == []
    assert server.port.memory.bytes == 0


async def test_a_long_request_that_is_none_ends_its_connection() -> None:
    server = Server()
    server.send(1)
    await server.settle()
    server.send(5_000, cut=7)
    server.send(1)
    await server.settle()
    assert server.names == [1]
    assert server.wire.closed
    assert server.port.memory.bytes == 0


async def test_a_request_with_too_many_items_ends_its_connection() -> None:
    server = Server()
    server.send(codec.ITEMS_MAX + 1)
    await server.settle()
    assert server.wire.closed
    assert server.names == []


async def test_an_answer_that_is_too_large_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(codec, "WRITTEN_BYTES_MAX", 10_000)
    server = Server()
    server.send(3_000)
    await server.settle()
    assert server.names == [3_000]
    assert (server.wire.closed, server.wire.written) == (True, [])
    assert server.port.memory.bytes == 0


async def test_a_long_request_waits_for_memory_that_its_tenant_lacks() -> None:
    server = Server()
    memory = server.port.memory
    other = KafkaConnection(server.port, server.gateway)
    other.connection_made(cast(asyncio.Transport, Wire()))
    other.session.caller, other.session.authenticated = ALICE, True
    most = server.port.settings.requests_bytes_total_max
    frames = memory.take(other, most // 2, only=False)
    lent = memory.take_items(other, 10)
    assert frames is not None
    assert lent is not None
    assert memory.take_items(other, 10) is None, "one beyond the share is lent"
    server.send(1_000)  # which is small enough to be read whatever the share
    await server.settle()
    assert server.names == []
    memory.release(lent)
    await server.settle()
    assert server.answered == [0]
    memory.release(frames)
    assert memory.bytes == 0


async def test_a_long_request_starts_although_the_next_one_lacks_memory() -> None:
    server = Server()
    memory = server.port.memory
    other = KafkaConnection(server.port, server.gateway)
    other.connection_made(cast(asyncio.Transport, Wire()))
    other.session.caller, other.session.authenticated = ALICE, True
    frames = memory.take(other, server.port.settings.requests_bytes_total_max // 2, only=False)
    assert frames is not None
    server.send(1_000)
    server.announce(1 << 20)
    await server.settle()
    assert server.answered == [0]
    memory.release(frames)


async def test_a_request_that_waits_for_memory_is_answered_although_the_stream_broke() -> None:
    server = Server()
    memory = server.port.memory
    other = KafkaConnection(server.port, server.gateway)
    other.connection_made(cast(asyncio.Transport, Wire()))
    other.session.caller, other.session.authenticated = ALICE, True
    frames = memory.take(other, server.port.settings.requests_bytes_total_max // 2, only=False)
    lent = memory.take_items(other, 10)
    assert frames is not None
    assert lent is not None
    server.begins.clear()
    server.send(1, 1_000)
    await server.settle()
    server.announce(1 << 30)
    server.begins.set()
    await server.settle()
    memory.release(lent)
    memory.release(frames)
    await server.settle()
    assert server.answered == [0, 1]
    assert server.wire.closed


async def test_a_frame_that_is_still_decoded_keeps_its_memory() -> None:
    server = Server()
    server.beside.let.clear()
    server.send(5_000)
    await server.settle()
    held = server.port.memory.bytes
    server.connection.session.ends = True
    server.connection._drop_waiting()
    assert server.port.memory.bytes == held > 0
    server.beside.let.set()
    await server.settle()
    assert server.port.memory.bytes == 0


async def test_a_call_that_is_cancelled_before_it_begins_ends() -> None:
    server = Server()
    server.send(1)
    (task,) = server.gateway._tasks
    task.cancel()
    await server.settle()
    assert server.wire.closed
    assert server.port.memory.bytes == 0


async def test_a_request_that_cannot_be_read_by_a_thread_ends_its_connection() -> None:
    server = Server()

    server.beside.stopped = True
    server.send(5_000)
    await server.settle()
    assert server.wire.closed


async def test_nothing_is_sent_behind_an_answer_that_is_left_out() -> None:
    server = Server()
    server.fails_at = 1
    server.send(1, 2, 3)
    await server.settle()
    assert server.answered == [0]
    assert server.wire.closed


async def test_a_drain_waits_for_a_request_that_is_being_read() -> None:
    server = Server()
    server.beside.let.clear()
    server.send(5_000)
    await server.settle()
    assert server.connection.deadline_s == math.inf, "it is not the client's turn"
    server.connection.drain()
    server.beside.let.set()
    await server.settle()
    assert server.answered == [0]


def places(count: int, first: int = 0) -> dict[Any, Wanted]:
    return {("t", number): Wanted(0, 1) for number in range(first, first + count)}


def client(caller: Principal = ALICE) -> ClientSession:
    return ClientSession(peer="127.0.0.1", network="", private=True, caller=caller)


def test_members_of_an_organisation_share_their_sessions() -> None:
    sessions = FetchSessions()
    members = [Principal(id=f"m{number}", number=number, organisation="CLx") for number in range(9)]
    clients = [client(each) for each in members for _ in range(SESSIONS_OF_TENANT_MAX // 8)]
    opened = [sessions.open(each, {}) for each in clients]
    assert sum(each is not None for each in opened) == SESSIONS_OF_TENANT_MAX
    assert sessions.open(client(), {}) is not None


def test_the_partitions_in_sessions_of_a_tenant_are_bounded_together() -> None:
    member = replace(ALICE, id="member", organisation=ALICE.id)
    sessions, clients = FetchSessions(), [client() for _ in range(15)]
    clients += [client(member) for _ in range(15)]
    opened = [sessions.open(each, places(PLACES_MAX)) for each in clients]
    assert sum(each is not None for each in opened) == PLACES_OF_TENANT_MAX // PLACES_MAX
    small = clients[-1]
    assert sessions.open(small, {}) is not None
    session = sessions.find(small, len(sessions), 1)
    assert session is not None
    with pytest.raises(RefusedSession):
        sessions.change(session, places(1), ())
    assert sessions.find(small, NO_SESSION, EPOCH_FIRST) is None
    assert len(opened[0].places if opened[0] else ()) == PLACES_MAX


async def test_pieces_of_one_call_leave_room_for_others() -> None:
    work, done = LongWork(None, 1), []
    header = RequestHeader(int(ApiKey.DESCRIBE_GROUPS), VERSION, 1, None)
    received = Received(api_of(ApiKey.DESCRIBE_GROUPS), header, None)
    call = KafkaCall(received, client(), work, lambda call, pieces: None)

    async def other() -> None:
        done.append(len(converted))

    converted: list[int] = []
    asyncio.get_running_loop().call_soon(lambda: asyncio.ensure_future(other()))
    await call.each(range(5_000), converted.append)
    assert len(converted) == 5_000
    assert 0 < done[0] < 2_000


@pytest.mark.parametrize("key", sorted(ENDS_WITH_CLIENT))
async def test_calls_that_only_read_end_with_their_client(key: ApiKey) -> None:
    began = asyncio.Event()

    async def read(*_: Any) -> None:
        began.set()
        await asyncio.Event().wait()

    port = KafkaPort(KafkaSettings(), lambda _: asyncio.BaseProtocol())
    gateway = KafkaGateway(cast(Services, SimpleNamespace(port=port)), {key: Served(read, (0, 1))})
    header = RequestHeader(int(key), 1, 1, None)
    answers: list[list[Any]] = []
    received = Received(api_of(key), header, None)
    call = KafkaCall(received, client(), LongWork(None, 1), lambda _, parts: answers.append(parts))
    gateway.start(call)
    await began.wait()
    assert call.gone is not None
    call.gone()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert answers == [[]]
    assert not gateway._tasks


async def test_proofs_of_addresses_take_turns() -> None:
    """Each takes milliseconds on a thread; an address with many delays only itself."""
    begun: list[str] = []
    beside, let = Beside(), asyncio.Event()

    async def run(_: Any, _digest: Any, secret: bytes, _salt: bytes) -> Any:
        begun.append(secret.decode())
        await let.wait()

    setattr(beside, "run", run)  # noqa: B010 - a method is replaced
    live = {f"{who}{number}": who for who in ("many", "one") for number in range(20)}
    principals = SimpleNamespace(
        key=lambda key: SimpleNamespace(disabled=False, secret=live[key].encode())
    )
    context = SimpleNamespace(config=SimpleNamespace(session_key=b"k"))
    broker = SimpleNamespace(work=LongWork(beside, 100), context=context)
    keys = DerivedKeys(cast(Any, broker), cast(Any, SimpleNamespace(principals=principals)))
    proofs = [keys.of("SCRAM-SHA-256", f"many{number}", "a") for number in range(20)]
    tasks = [asyncio.ensure_future(proof) for proof in proofs]
    await asyncio.sleep(0)
    tasks.append(asyncio.ensure_future(keys.of("SCRAM-SHA-256", "one0", "b")))
    await asyncio.sleep(0)
    let.set()
    await asyncio.gather(*tasks)
    assert begun.index("one") <= TURNS_MAX + 2
