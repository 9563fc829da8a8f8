"""Places of Thrift calls: shares, some for administrators, freed when a call ends."""

import asyncio
from typing import Any

import pytest
from tests.loop_steps import works_for

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.thrift_http import call_tasks
from opentalos.gateway.thrift_http.call_tasks import CallTasks
from opentalos.gateway.thrift_http.replies import CallForm
from opentalos.model.errors import ExcessivePending, OutcomeUnknown, TalosError
from opentalos.model.identity import GUEST, Principal
from opentalos.wire._generated.talos import SERVICES
from opentalos.wire.thrift import ThriftProtocol

ALICE, BOB = Principal(id="alice", number=1), Principal(id="bob", number=2)
ROOT = Principal(id="root", number=3, admin=True)
METHOD = SERVICES["MessageService"].methods["getMessage"]
FORM = CallForm(ThriftProtocol.COMPACT, b"application/x-thrift-compact", METHOD, 1)


class Connection:
    """Of one client."""

    alive, peer, network = True, "192.0.2.1", "192.0.2.1"

    def answer(self, *_: Any) -> None:
        """The reply is in the bench."""


class Bench:
    """Calls that wait until a test ends them."""

    def __init__(self) -> None:
        self.refused: list[TalosError] = []
        self.tasks = CallTasks(lambda exchange, form, error: self.refused.append(error))
        self.end = asyncio.Event()
        self.worked_for: list[str] = []
        self.exchanges: list[Exchange] = []

    def poll(self, caller: Principal) -> bool:
        """Whether the call got a place."""
        connection: Any = Connection()
        exchange = Exchange(connection, b"POST", b"/v1/api/message", {})
        task = self.tasks.spawn(exchange, FORM, caller, self._wait())
        self.tasks.end_when_late(exchange, FORM, task)
        self.exchanges.append(exchange)
        return task is not None

    async def _wait(self) -> None:
        self.worked_for.append(works_for())
        await self.end.wait()


async def settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def few_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_tasks, "TASKS_MAX", 10)
    monkeypatch.setattr(call_tasks, "TASKS_KEPT", 2)


async def test_one_tenant_leaves_places_to_others_and_to_administrators() -> None:
    bench = Bench()
    assert [bench.poll(ALICE) for _ in range(6)] == [True] * 4 + [False] * 2
    assert [bench.poll(BOB) for _ in range(3)] == [True] * 2 + [False]
    assert [bench.poll(ROOT) for _ in range(5)] == [True] * 4 + [False]
    assert {type(error) for error in bench.refused} == {ExcessivePending}
    bench.end.set()
    await bench.tasks.drain(5.0)
    assert bench.poll(ALICE)
    await bench.tasks.drain(0.0)


async def test_a_call_works_for_its_tenant_and_a_guest_for_its_address() -> None:
    bench = Bench()
    for caller in (ALICE, BOB, GUEST):
        assert bench.poll(caller)
    await settle()
    assert bench.worked_for == ["alice", "bob", "/192.0.2.1"]
    await bench.tasks.drain(0.0)


async def test_a_read_whose_client_is_gone_frees_its_place_at_once() -> None:
    bench = Bench()
    assert [bench.poll(ALICE) for _ in range(5)] == [True] * 4 + [False]
    await settle()
    late = bench.exchanges[0].late
    assert late is not None
    late(OutcomeUnknown("the client disconnected"))
    await settle()
    assert bench.poll(ALICE)
    await bench.tasks.drain(0.0)
