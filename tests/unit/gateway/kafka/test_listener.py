"""The memory of the port: who gets it, and who waits for it in which order."""

import asyncio
from dataclasses import dataclass, field

from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.model.settings.kafka import KafkaSettings
from opentalos.server.ports.kafka import announced

KIB = 1 << 10
SETTINGS = KafkaSettings(request_bytes_max=64 * KIB, requests_bytes_total_max=256 * KIB)


@dataclass(eq=False)
class Waiting:
    """A connection that wants memory for one request."""

    port: KafkaPort
    tenant: str
    served: list["Waiting"]
    count: int = 64 * KIB
    network: str = ""
    deadline_s: float = field(default=0.0)
    aborted: bool = False

    def resume(self) -> None:
        if self.port.take(self.tenant, self.count):
            self.served.append(self)
        else:
            self.port.wait_for_room(self)

    def abort(self) -> None:
        self.aborted = True

    def expire(self) -> None: ...
    def look(self) -> None: ...
    def drain(self) -> None: ...


def port() -> KafkaPort:
    return KafkaPort(SETTINGS, lambda _: asyncio.Protocol())


async def test_a_tenant_gets_half_of_the_memory_and_others_the_rest() -> None:
    made, served = port(), list[Waiting]()
    greedy = [Waiting(made, "greedy", served) for _ in range(5)]
    for connection in greedy:
        connection.resume()
    assert served == greedy[:2]
    other = Waiting(made, "other", served)
    other.resume()
    assert served == [*greedy[:2], other]
    made.release("greedy", 64 * KIB)
    await asyncio.sleep(0)
    assert served == [*greedy[:2], other, greedy[2]], "in order"
    assert made.request_bytes == 3 * 64 * KIB


async def test_who_waits_takes_turns() -> None:
    made, served = port(), list[Waiting]()
    for tenant in ("one", "two"):
        for _ in range(2):
            Waiting(made, tenant, served).resume()
    assert len(served) == 4
    waiting = [Waiting(made, tenant, served) for tenant in ("one", "one", "three", "two")]
    for connection in waiting:
        connection.resume()
    assert len(served) == 4
    made.release("one", 64 * KIB)
    made.release("two", 64 * KIB)
    await asyncio.sleep(0)
    assert served[4:] == [waiting[0], waiting[2]]
    assert made.request_bytes == 256 * KIB


async def test_a_single_request_always_fits() -> None:
    made = port()
    assert made.take("one", 300 * KIB)
    assert not made.take("two", 1)
    made.release("one", 300 * KIB)
    assert made.request_bytes == 0


async def test_of_too_many_unread_answers_the_largest_is_dropped() -> None:
    settings = KafkaSettings(answers_bytes_total_max=100)
    made = KafkaPort(settings, lambda _: asyncio.Protocol())
    small, large = Waiting(made, "a", []), Waiting(made, "b", [])
    made.is_unread(large, 70)
    made.is_unread(small, 20)
    made.is_unread(small, 30)
    await asyncio.sleep(0)
    assert not large.aborted
    made.is_unread(small, 40)
    await asyncio.sleep(0)
    assert (small.aborted, large.aborted) == (False, True)
    made.is_read(large)
    made.is_read(small)
    assert made.unread_bytes == 0


def test_an_address_of_this_machine_is_told_to_servers_of_this_machine_alone() -> None:
    assert announced("127.0.0.1:9092", "127.0.0.1:9420") == "127.0.0.1:9092"
    assert announced("127.0.0.1:9092", "https://talos-1:9420") == ""
    assert announced("talos-1:9092", "https://talos-1:9420") == "talos-1:9092"
    assert announced("[::1]:9092", "[::1]:9420") == "[::1]:9092"
    assert announced("", "talos-1:9420") == ""
