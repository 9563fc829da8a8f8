"""Turns of the port for Kafka: tenants start requests in rotation, whichever port they use."""

import asyncio
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.catalog.support import ALICE, BOB
from tests.unit.gateway.http.support import Bench, request, statuses

from opentalos.broker.long_work import LongWork
from opentalos.gateway.http.fairness.pacing import PASS_BYTES
from opentalos.gateway.http.fairness.turns import ALONE_TURN_S, STARTS_A_TURN, TURN_S, Turns
from opentalos.gateway.kafka.call import ClientSession, KafkaCall, Receiver
from opentalos.gateway.kafka.connection import PIPELINE_MAX, KafkaConnection
from opentalos.gateway.kafka.gateway import KafkaGateway, Services
from opentalos.gateway.kafka.handlers import TABLE
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.model.identity import GUEST, Principal
from opentalos.model.settings.kafka import KafkaSettings
from opentalos.server.config import Config
from opentalos.server.ports.listening import make_ports
from opentalos.wire.kafka._generated.metadata_request import MetadataRequest
from opentalos.wire.kafka.apis import ApiKey, api_of, write_request

COST_S = TURN_S / 4  # of a request
BROKEN = struct.pack(">i", -1)  # no size of a frame


class Wire:
    """The transport of a client that reads everything."""

    def __init__(self, peer: str) -> None:
        self._peer, self.closed, self.reading = peer, False, True
        self.sent: list[int] = []  # bytes of each write

    def get_extra_info(self, name: str) -> Any:
        return (self._peer, 1) if name == "peername" else None

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write(self, data: Any) -> None:
        self.sent.append(len(data))

    def writelines(self, pieces: Any) -> None:
        self.sent += map(len, pieces)

    def set_write_buffer_limits(self, high: int) -> None: ...
    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True


class Port:
    """A port whose requests take a while of the loop; answered in the pass that starts them."""

    def __init__(self) -> None:
        self.now_s, self.cost_s = 0.0, COST_S
        self.turns = Turns(lambda: self.now_s)
        self.port = KafkaPort(KafkaSettings(), lambda _: asyncio.BaseProtocol(), None, self.turns)
        self.order: list[str] = []  # whose requests were started
        self.answers, self.answer = True, b""
        self._callers: dict[str, Principal] = {}

    def connect(self, caller: Principal = GUEST, peer: str = "192.0.2.1") -> KafkaConnection:
        self._callers[peer] = caller
        connection = KafkaConnection(self.port, self)
        connection.connection_made(cast(asyncio.Transport, Wire(peer)))
        return connection

    def decode(self, _frame: memoryview, session: ClientSession, connection: Receiver) -> KafkaCall:
        return cast(
            KafkaCall, SimpleNamespace(gone=None, items=0, session=session, connection=connection)
        )

    async def decode_long(
        self, frame: memoryview, session: ClientSession, connection: Receiver
    ) -> KafkaCall:
        raise NotImplementedError

    def admit(self, session: ClientSession, _found: Any) -> None:
        session.caller, session.authenticated = self._callers[session.peer], True

    def overlaps(self, _call: KafkaCall) -> bool:
        return True

    def start(self, call: KafkaCall) -> None:
        self.order.append(call.session.caller.id)
        self.now_s += self.cost_s
        if self.answers:
            cast(Any, call).connection.answered(call, [self.answer])

    async def all_turns(self) -> int:
        """How many passes of the loop it takes until no connection waits for its turn."""
        passes = 0
        while self.turns.waiting:
            await asyncio.sleep(0)
            passes += 1
        return passes


def send(connection: KafkaConnection, count: int = 1, end: bytes = b"") -> None:
    data = (struct.pack(">i", 1) + b"x") * count + end
    connection.get_buffer(len(data))[: len(data)] = data
    connection.buffer_updated(len(data))


def wire(connection: KafkaConnection) -> Wire:
    return cast(Wire, connection._transport)


def crowded(made: Port) -> list[KafkaConnection]:
    """A hundred connections of one tenant, whose pipelines are full."""
    many = [made.connect(ALICE) for _ in range(100)]
    made.connect(BOB, "192.0.2.2")
    for connection in many:
        send(connection, PIPELINE_MAX)
    return many


async def test_one_request_beside_a_hundred_pipelines_is_among_the_next() -> None:
    made = Port()
    victim = made.connect(BOB, "192.0.2.2")
    crowded(made)
    send(victim)
    assert len(made.order) <= TURN_S / COST_S + 1, "of the pass that brought all of it"
    await asyncio.sleep(0)
    assert BOB.id in made.order
    assert made.order.index(BOB.id) <= 2 * (TURN_S / COST_S + 1)
    await made.all_turns()
    assert len(made.order) == 100 * PIPELINE_MAX + 1


async def test_a_pass_starts_no_more_than_its_time_allows() -> None:
    made = Port()
    crowded(made)
    passes = await made.all_turns()
    assert passes >= 100 * PIPELINE_MAX * COST_S / (ALONE_TURN_S + COST_S) - 2
    assert len(made.order) == 100 * PIPELINE_MAX


async def test_a_tenant_with_many_connections_gets_as_much_as_one_with_one() -> None:
    made = Port()
    one = made.connect(BOB, "192.0.2.2")
    crowded(made)
    send(one, PIPELINE_MAX)
    made.order.clear()
    for _ in range(5):
        await asyncio.sleep(0)
    counts = [made.order.count(principal.id) for principal in (ALICE, BOB)]
    assert abs(counts[0] - counts[1]) <= STARTS_A_TURN
    await made.all_turns()


async def test_of_a_request_that_takes_long_a_pass_has_one() -> None:
    made = Port()
    victim = made.connect(BOB, "192.0.2.2")
    made.cost_s = 5 * TURN_S
    crowded(made)
    send(victim)
    assert len(made.order) == 1
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(made.order) <= 3
    assert BOB.id in made.order
    made.cost_s = 0.0
    await made.all_turns()


async def test_a_single_tenant_is_neither_measured_nor_made_to_wait() -> None:
    made = Port()
    for connection in [made.connect(ALICE) for _ in range(50)]:
        send(connection, PIPELINE_MAX)
    assert len(made.order) == 50 * PIPELINE_MAX
    assert not made.turns.deferred
    assert not made.turns.load_s


async def test_who_is_not_known_yet_takes_the_turns_of_its_address() -> None:
    made = Port()
    strangers = [made.connect(GUEST) for _ in range(20)]
    made.connect(ALICE, "192.0.2.2")
    for connection in strangers:
        send(connection)
    assert {connection.party for connection in strangers} == {"/192.0.2.1"}
    assert len(made.order) <= TURN_S / COST_S + 1
    await made.all_turns()


async def test_a_connection_counts_for_its_tenant_once_it_has_authenticated() -> None:
    made = Port()
    connection, other = made.connect(GUEST), made.connect(GUEST)
    shared = [made.turns.shared]
    connection.session.caller = ALICE
    send(connection)
    await asyncio.sleep(0)
    assert connection.party == ALICE.owner_id
    shared.append(made.turns.shared)
    connection.connection_lost(None)
    shared.append(made.turns.shared)
    assert shared == [False, True, False], "in the end only the address of the other one is left"
    other.connection_lost(None)


async def test_requests_that_wait_are_answered_before_a_broken_stream_ends() -> None:
    made = Port()
    last = made.connect(ALICE)
    crowded(made)
    send(last, 3, BROKEN)
    assert not wire(last).closed
    await made.all_turns()
    await asyncio.sleep(0)
    assert wire(last).closed
    assert made.order.count(ALICE.id) == 100 * PIPELINE_MAX + 3


async def test_requests_that_wait_are_answered_before_a_drain_ends() -> None:
    made = Port()
    last = made.connect(ALICE)
    crowded(made)
    send(last)
    made.port.draining = True
    last.drain()
    assert not wire(last).closed
    await made.all_turns()
    await asyncio.sleep(0)
    assert wire(last).closed


async def test_a_connection_that_ends_while_it_waits_takes_nothing_of_the_turn() -> None:
    made = Port()
    last = made.connect(ALICE)
    crowded(made)
    send(last)
    last.connection_lost(None)
    await made.all_turns()
    assert made.order.count(ALICE.id) == 100 * PIPELINE_MAX


async def test_a_pipeline_that_waited_is_read_again() -> None:
    made = Port()
    last = made.connect(ALICE)
    crowded(made)
    send(last, 2 * PIPELINE_MAX)
    assert not wire(last).reading
    await made.all_turns()
    await asyncio.sleep(0)
    await made.all_turns()
    assert wire(last).reading
    assert made.order.count(ALICE.id) == 102 * PIPELINE_MAX


async def test_a_call_under_way_alone_takes_no_turn_from_those_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Port()
    made.answers = False
    monkeypatch.setattr(made, "overlaps", lambda _: False)
    first = made.connect(ALICE)
    made.connect(BOB, "192.0.2.2")
    send(first, 5)
    assert made.order == [ALICE.id]
    assert not made.turns.waiting


async def test_both_ports_take_of_one_pass() -> None:
    bench, made = Bench(), Port()
    bench.server.turns = made.turns
    victim, received = bench.connect("198.51.100.1")
    crowded(made)
    victim.data_received(request())
    assert len(made.order) <= TURN_S / COST_S + 1, "a tenant alone on its port"
    assert not received.written
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert statuses(received.written) == [200]
    await made.all_turns()


async def test_a_large_answer_leaves_in_turns_and_whole() -> None:
    made = Port()
    made.answer = bytes(10 * PASS_BYTES)
    made.connect(BOB, "192.0.2.2")
    connection = made.connect(ALICE)
    transport = wire(connection)
    send(connection)
    await asyncio.sleep(0)
    assert 0 < sum(transport.sent) <= PASS_BYTES
    assert made.port.unread_bytes == len(made.answer) - sum(transport.sent)
    assert connection.eof_received(), "the loop must not close the socket"
    assert not transport.closed
    assert await made.all_turns() >= 9
    assert sum(transport.sent) == len(made.answer)
    assert transport.closed


def test_the_ports_of_a_server_share_their_turns() -> None:
    http, kafka = make_ports(Config())
    assert http.turns is kafka.port.turns


@pytest.fixture
def gateway() -> tuple[KafkaGateway, KafkaPort]:
    port = KafkaPort(KafkaSettings(), lambda _: asyncio.BaseProtocol())
    broker = SimpleNamespace(work=LongWork(None, 1))
    return KafkaGateway(cast(Services, SimpleNamespace(port=port, broker=broker)), TABLE), port


async def test_a_call_with_a_task_counts_before_its_handler_begins(
    gateway: tuple[KafkaGateway, KafkaPort],
) -> None:
    calls, port = gateway
    session = ClientSession(peer="", network="", private=True, authenticated=True)
    frame = bytes(write_request(api_of(ApiKey.METADATA), 12, MetadataRequest(topics=None)))[4:]
    connection = cast(KafkaConnection, SimpleNamespace(answered=lambda *_: None))
    loads = []
    for shared in (False, True):
        port.turns.shared = shared
        call = calls.decode(memoryview(frame), session, connection)
        assert call is not None
        calls.start(call)
        loads.append(port.turns.load_s)
    await calls.drain(0.0)
    assert loads == [0.0, TURN_S]
