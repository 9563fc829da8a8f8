import asyncio
from dataclasses import dataclass, field

from opentalos.gateway.http.fairness.connections import (
    DRAINED_A_TURN,
    ConnectionRoom,
    OpenConnections,
)
from opentalos.model.settings.kafka import KafkaSettings

LIMITS = KafkaSettings(connections_max=4, connections_address_max=2)


@dataclass(eq=False)
class Held:
    """A connection that is closed when it is asked to, unless it is busy."""

    network: str
    busy: bool = False
    seen: list[str] = field(default_factory=list)
    port: "OpenConnections[Held] | None" = None

    def drain(self) -> None:
        self.seen.append("drain")
        if not self.busy and self.port is not None:
            self.port.forget(self)

    def abort(self) -> None:
        self.seen.append("abort")


def opened(room: ConnectionRoom | None = None) -> OpenConnections[Held]:
    return OpenConnections(LIMITS, lambda tls: asyncio.Protocol(), room)


async def test_an_address_and_the_port_have_their_bounds() -> None:
    port, first = opened(), Held("192.0.2.1")
    assert port.admit(first)
    assert port.admit(Held("192.0.2.1"))
    crowded = Held("192.0.2.1")
    assert not port.admit(crowded)
    port.forget(crowded)
    assert port.admit(Held("127.0.0.1"))
    assert port.admit(Held("127.0.0.1"))
    assert not port.admit(Held("127.0.0.1")), "the bound of all connections holds for everybody"
    assert (len(port), port.accepted) == (5, 6)
    port.forget(first)
    port.forget(first)
    assert len(port) == 4


async def test_the_ports_of_a_process_share_its_descriptors() -> None:
    room = ConnectionRoom(3)
    http, kafka = opened(room), opened(room)
    first = Held("127.0.0.1")
    assert http.admit(first)
    assert http.admit(Held("127.0.0.1"))
    assert kafka.admit(Held("127.0.0.1"))
    refused = Held("127.0.0.1")
    assert not kafka.admit(refused)
    kafka.forget(refused)
    http.forget(first)
    http.forget(first)
    assert kafka.admit(Held("127.0.0.1"))
    assert not http.admit(Held("127.0.0.1"))


async def test_a_drain_ends_with_the_last_connection() -> None:
    port = opened()
    idle = [Held("127.0.0.1", port=port) for _ in range(DRAINED_A_TURN + 1)]
    busy = Held("127.0.0.1", busy=True)
    for connection in (*idle, busy):
        port.admit(connection)
    drained = asyncio.create_task(port.drain(60.0))
    for _ in range(4):
        await asyncio.sleep(0)
    assert (len(port), drained.done()) == (1, False)
    port.forget(busy)
    assert await drained
    assert [each.seen for each in (*idle, busy)] == [["drain"]] * (len(idle) + 1)


async def test_what_hangs_is_cut_after_the_time() -> None:
    port, busy = opened(), Held("127.0.0.1", busy=True)
    port.admit(busy)
    assert not await port.drain(0.0)
    assert busy.seen == ["drain", "abort"]
