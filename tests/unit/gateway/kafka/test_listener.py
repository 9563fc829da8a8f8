"""The port's memory and connections: who gets them, and who waits in which order."""

import asyncio
from dataclasses import dataclass, field

from opentalos.gateway.http.fairness.pool import Hold
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.model.settings.kafka import KafkaSettings
from opentalos.server.ports.kafka import announced

KIB = 1 << 10
SETTINGS = KafkaSettings(
    request_bytes_max=64 * KIB, requests_bytes_total_max=256 * KIB, connections_max=100
)


@dataclass(eq=False)
class Waiting:
    """A connection that wants memory for one request."""

    port: KafkaPort
    tenant: str
    served: list["Waiting"] = field(default_factory=list)
    count: int = 64 * KIB
    stranger: bool = False
    network: str = ""
    party: str = ""
    deadline_s: float = field(default=0.0)
    aborted: bool = False
    hold: Hold | None = None

    def resume(self) -> None:
        self.hold = self.port.memory.take(self, self.count, only=True)
        if self.hold is not None:
            self.served.append(self)
        else:
            self.port.memory.wait(self)

    def release(self) -> None:
        assert self.hold is not None
        self.port.memory.release(self.hold)

    def abort(self) -> None:
        self.aborted = True

    def expire(self) -> None: ...
    def look(self) -> None: ...
    def drain(self) -> None: ...


def port(settings: KafkaSettings = SETTINGS) -> KafkaPort:
    return KafkaPort(settings, lambda _: asyncio.Protocol())


async def test_a_tenant_gets_half_of_the_memory_and_others_the_rest() -> None:
    made, served = port(), list[Waiting]()
    greedy = [Waiting(made, "greedy", served) for _ in range(5)]
    for connection in greedy:
        connection.resume()
    assert served == greedy[:2]
    other = Waiting(made, "other", served)
    other.resume()
    assert served == [*greedy[:2], other]
    greedy[0].release()
    other.release()
    await asyncio.sleep(0)
    assert served == [*greedy[:2], other, greedy[2]], "in order"
    assert made.memory.bytes == 2 * 64 * KIB


async def test_two_tenants_leave_room_for_a_third_and_many_for_one_more() -> None:
    made = port()
    for number in range(8):
        for _ in range(9):
            Waiting(made, f"greedy-{number}", count=4 * KIB).resume()
    last = Waiting(made, "other", count=4 * KIB)
    last.resume()
    assert last.hold is not None


async def test_strangers_share_a_small_part() -> None:
    made = port()
    strangers = [Waiting(made, f"/192.0.2.{n}", stranger=True) for n in range(9)]
    for connection in strangers:
        connection.resume()
    assert len([each for each in strangers if each.hold is not None]) == 1
    known = [Waiting(made, "known") for _ in range(2)]
    for connection in known:
        connection.resume()
    assert all(each.hold is not None for each in known)


async def test_a_small_request_waits_for_no_large_ones() -> None:
    made = port()
    for number in range(4):
        Waiting(made, f"greedy-{number}").resume()
    small = Waiting(made, "greedy-0", count=KIB)
    small.resume()
    assert small.hold is not None
    assert made.memory.take(small, KIB, only=False) is None, "but one of each connection"


async def test_who_waits_takes_turns() -> None:
    made, served = port(), list[Waiting]()
    first = [Waiting(made, tenant, served) for tenant in ("one", "two", "three", "four")]
    for connection in first:
        connection.resume()
    assert served == first
    waiting = [Waiting(made, tenant, served) for tenant in ("one", "one", "five", "two")]
    for connection in waiting:
        connection.resume()
    assert len(served) == 4
    first[0].release()
    first[1].release()
    await asyncio.sleep(0)
    assert served[4:] == [waiting[0], waiting[2]]
    assert made.memory.bytes == 256 * KIB


async def test_the_oldest_stranger_gives_way_and_no_client_that_is_known() -> None:
    made = port(KafkaSettings(connections_max=3, connections_address_max=0))
    known, *strangers = (Waiting(made, str(number)) for number in range(5))
    assert made.admit(known)
    assert made.is_known(known, admin=False)
    assert [made.admit(each) for each in strangers] == [True] * 4
    assert [each.aborted for each in strangers] == [True, True, False, False]
    for each in strangers[:2]:
        made.forget(each)
    assert not known.aborted
    assert (made.cut, made.refused) == (2, 0)


async def test_a_tenant_s_connections_leave_places_for_others_and_administrators() -> None:
    made = port()

    def connected(tenant: str, *, admin: bool = False) -> bool:
        connection = Waiting(made, tenant)
        admitted = made.admit(connection) and made.is_known(connection, admin=admin)
        if not admitted:
            made.forget(connection)
        return admitted

    assert sum(connected("greedy") for _ in range(60)) == 49
    assert sum(connected(f"other-{number}") for number in range(60)) == 49
    assert connected("root", admin=True)
    assert connected("root", admin=True)


async def test_a_guest_that_authenticates_counts_as_its_tenant_from_then_on() -> None:
    made = port()
    guests = [Waiting(made, "/192.0.2.1") for _ in range(49)]
    assert all(made.admit(each) and made.is_known(each, admin=False) for each in guests)
    crowded = Waiting(made, "/192.0.2.1")
    assert made.admit(crowded)
    assert not made.is_known(crowded, admin=False), "its address has half"
    for each in guests[:10]:
        each.tenant = "alice"
        assert made.is_known(each, admin=False)
    assert made.is_known(crowded, admin=False)
    others = [Waiting(made, "alice") for _ in range(30)]
    known = [made.admit(each) and made.is_known(each, admin=False) for each in others]
    assert sum(known) == 19, "what is free after its own ten and forty guests"
    for each in (*guests, crowded, *others):
        made.forget(each)
    assert made.is_known(Waiting(made, "alice"), admin=False)
    assert made._held == {"alice": 1}


async def test_a_guest_without_a_place_may_prove_to_be_an_administrator_or_gives_way() -> None:
    made = port(KafkaSettings(connections_max=100, connections_address_max=0))
    for number in range(98):
        guest = Waiting(made, f"/192.0.2.{number}")
        assert made.admit(guest)
        assert made.is_known(guest, admin=False)
    late, administrator = Waiting(made, "/192.0.2.99"), Waiting(made, "/192.0.2.98")
    for each in (late, administrator):
        assert made.admit(each)
        assert not made.is_known(each, admin=False)
    administrator.tenant = "root"
    assert made.is_known(administrator, admin=True)
    assert made.admit(Waiting(made, "/192.0.2.97"))
    assert (late.aborted, administrator.aborted) == (True, False)


async def test_of_too_many_unread_answers_the_largest_is_dropped() -> None:
    settings = KafkaSettings(answers_bytes_total_max=100)
    made = KafkaPort(settings, lambda _: asyncio.Protocol())
    small, large = Waiting(made, "a"), Waiting(made, "b")
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
