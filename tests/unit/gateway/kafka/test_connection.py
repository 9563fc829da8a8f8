"""Frames of a connection, however their bytes arrive."""

import asyncio
import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest

from opentalos.gateway.kafka.call import ClientSession, KafkaCall, Receiver
from opentalos.gateway.kafka.connection import KafkaConnection
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.model.errors import InvalidCredential
from opentalos.model.identity import Principal
from opentalos.model.settings.kafka import KafkaSettings

KIB, MIB = 1 << 10, 1 << 20
SIZES = (1, 70_000, 3, 200 * KIB, MIB, 64 * KIB, 64 * KIB - 1, 4 * MIB, 4 * MIB + 1, 5 * MIB, 9)


class Wire:
    """The transport of a client that reads everything."""

    closed = False

    def get_extra_info(self, _name: str) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def writelines(self, _pieces: Any) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.closed = True


class Calls:
    """Answers each request at once, and keeps its frame."""

    def __init__(self) -> None:
        self.frames: list[memoryview] = []
        self.started: list[KafkaCall] = []
        self.answers = True
        self.connection: Receiver

    def decode(self, frame: memoryview, _session: ClientSession, connection: Receiver) -> KafkaCall:
        self.frames.append(frame)
        self.connection = connection
        return cast(KafkaCall, SimpleNamespace(gone=None, items=0))

    async def decode_long(
        self, frame: memoryview, session: ClientSession, connection: Receiver
    ) -> KafkaCall:
        raise NotImplementedError

    def admit(self, session: ClientSession, _found: Any) -> None:
        session.authenticated = True

    def overlaps(self, _call: KafkaCall) -> bool:
        return self.answers

    def start(self, call: KafkaCall) -> None:
        self.started.append(call)
        if self.answers:
            self.connection.answered(call, [b""])


def opened() -> tuple[KafkaConnection, Calls, KafkaPort]:
    calls, port = Calls(), KafkaPort(KafkaSettings(), lambda _: asyncio.BaseProtocol())
    connection = KafkaConnection(port, calls)
    connection.connection_made(cast(asyncio.Transport, Wire()))
    return connection, calls, port


async def send(connection: KafkaConnection, data: bytes, step: int) -> None:
    """As a loop does: at most ``step`` bytes at a time, into the buffer that it is given."""
    position = 0
    while position < len(data):
        buffer = connection.get_buffer(step)
        part = data[position : position + min(step, len(buffer))]
        buffer[: len(part)] = part
        connection.buffer_updated(len(part))
        position += len(part)
        await asyncio.sleep(0)


@pytest.mark.parametrize("step", [1_000, 64 * KIB - 1, 64 * KIB, 300_000, 16 * MIB])
async def test_frames_arrive_whole_and_in_order(step: int) -> None:
    connection, calls, port = opened()
    frames = [bytes([number + 1]) * size for number, size in enumerate(SIZES)]
    await send(connection, b"".join(struct.pack(">i", len(each)) + each for each in frames), step)
    assert [bytes(frame) for frame in calls.frames] == frames
    assert all(frame.readonly for frame in calls.frames)
    assert port.memory.bytes == 0


async def test_a_connection_whose_key_is_gone_ends_although_requests_wait() -> None:
    connection, calls, port = opened()
    calls.answers = False
    await send(connection, (struct.pack(">i", 5) + b"first") * 2, 64)

    def gone() -> Principal:
        raise InvalidCredential("the key was deleted")

    connection.session.check = gone
    connection.look()
    connection.answered(calls.started[0], [b""])
    await asyncio.sleep(0)
    assert cast(Wire, connection._transport).closed
    assert port.memory.bytes == 0


async def test_who_authenticates_after_being_a_guest_counts_anew() -> None:
    connection, _, port = opened()
    assert port._held == {"/": 1}
    connection.session.caller = Principal(id="alice", number=7)
    await send(connection, struct.pack(">i", 5) + b"first", 64)
    await asyncio.sleep(0)
    assert port._held == {"alice": 1}
    connection.connection_lost(None)
    assert port._held == {}


async def test_a_guest_without_a_place_has_to_authenticate() -> None:
    settings = KafkaSettings(connections_max=2)
    calls, port = Calls(), KafkaPort(settings, lambda _: asyncio.BaseProtocol())
    guests = [KafkaConnection(port, calls) for _ in range(2)]
    for guest in guests:
        guest.connection_made(cast(asyncio.Transport, Wire()))
    assert [guest.session.authenticated for guest in guests] == [True, False]
    assert guests[1].stranger
    session = guests[1].session
    session.caller, session.authenticated = Principal(id="root", number=1, admin=True), True
    await send(guests[1], struct.pack(">i", 5) + b"first", 64)
    await asyncio.sleep(0)
    assert not session.ends
    assert port._held == {"/": 1, "root": 1}


async def test_the_end_of_a_connection_ends_what_was_kept_for_it() -> None:
    connection, _, _ = opened()
    ended: list[bool] = []
    session = connection.session
    session.closers.append(lambda: ended.append(session.closed))
    connection.connection_lost(None)
    assert ended == [True]


@pytest.mark.parametrize(("size", "taken"), [(MIB, MIB), (32 * MIB, 64 * KIB)])
async def test_only_a_request_of_a_few_megabytes_has_memory_before_it_comes(
    size: int, taken: int
) -> None:
    connection, _, port = opened()
    await send(connection, struct.pack(">i", size), 4)
    assert len(connection.get_buffer(0)) == taken
    assert port.memory.bytes == size, "counted all the same"
