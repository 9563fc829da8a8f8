"""REST of the cluster: what goes to the service, what a server alone answers."""

from types import SimpleNamespace
from typing import Any

import pytest

from opentalos.broker.cluster.partition_places import PartitionPlace
from opentalos.broker.cluster.publication import Move
from opentalos.broker.cluster.service import ClusterStatus, ServerState, ServerStatus
from opentalos.gateway.rest.cluster import ClusterRoutes
from opentalos.gateway.rest.errors import NotClustered, NotServed, status_of
from opentalos.model.errors import BadRequest, PermissionDenied
from opentalos.model.identity import Principal

ROOT = Principal(id="root", number=1, admin=True)
EVE = Principal(id="eve", number=2)
STATUS = ClusterStatus(
    leader="s1",
    ring_number=3,
    servers=[ServerStatus(name="s1", state=ServerState.DRAINING, counters={"openings": 1})],
    partitions=8,
    unassigned=1,
    moving=[Move(topic_uuid="u", partition=0, source="s1", target="s2", planned=True)],
    recent=[],
)


class Service:
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    async def status(self, caller: Principal) -> ClusterStatus:
        return STATUS

    async def partitions(self, caller: Principal) -> dict[str, int]:
        return {"u": 8}

    async def drain(self, caller: Principal, server: str) -> None:
        self.calls.append(("drain", server))

    async def undrain(self, caller: Principal, server: str) -> None:
        self.calls.append(("undrain", server))

    async def set_weights(self, caller: Principal, weights: Any) -> None:
        self.calls.append(("weights", dict(weights)))


class Places:
    """One partition."""

    async def of_topic(self, caller: Principal, name: str) -> list[PartitionPlace]:
        return [PartitionPlace(partition=0, address="h:1", epoch=3, owner="s1")]


def routes(service: Service | None) -> ClusterRoutes:
    def authorize_admin(caller: Principal, action: str, resource: str) -> None:
        if not caller.admin:
            raise PermissionDenied("no")

    context = SimpleNamespace(
        config=SimpleNamespace(server="s1"),
        topics=SimpleNamespace(all=lambda: [SimpleNamespace(consumer_partitions=4)]),
        ownership=SimpleNamespace(addresses=lambda uuid, count: ["h:1"]),
        authorizer=SimpleNamespace(authorize_admin=authorize_admin),
    )
    broker: Any = SimpleNamespace(context=context, places=Places())
    stand_in: Any = service
    forwarding: Any = SimpleNamespace(counters=lambda: {"requests": 5})
    return ClusterRoutes(broker, stand_in, forwarding if service else None)


async def test_the_status_is_shown_as_json_with_this_servers_counters() -> None:
    status, shown = await routes(Service()).call(b"GET", [], ROOT, {})
    assert status == 200
    assert shown["servers"][0]["state"] == "draining"
    assert shown["moving"][0]["target"] == "s2"
    assert (shown["clustered"], shown["answered_by"]) == (True, "s1")
    assert shown["forwarding"] == {"requests": 5}


async def test_the_places_of_a_topic_are_shown() -> None:
    _, shown = await routes(Service()).call(b"GET", ["topics", "t"], ROOT, {})
    assert shown["partitions"] == [{"partition": 0, "address": "h:1", "epoch": 3, "owner": "s1"}]


async def test_the_partitions_of_every_topic_are_counted() -> None:
    shown = await routes(Service()).call(b"GET", ["partitions"], ROOT, {})
    assert shown == (200, {"topics": {"u": 8}})


@pytest.mark.parametrize(
    ("method", "path", "document", "called"),
    [
        (b"POST", "servers/s2/drain", {}, ("drain", "s2")),
        (b"DELETE", "servers/s2/drain", {}, ("undrain", "s2")),
        (b"PUT", "weights", {"servers": {"s1": 200}}, ("weights", {"s1": 200})),
        (b"PUT", "weights", {"servers": {"s1": [1, 2]}}, ("weights", {"s1": [1, 2]})),
    ],
)
async def test_commands_go_to_the_service(
    method: bytes, path: str, document: Any, called: Any
) -> None:
    service = Service()
    assert await routes(service).call(method, path.split("/"), ROOT, document) == (204, None)
    assert service.calls == [called]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"a": {}},
        {"servers": []},
        {"servers": {"s1": -1}},
        {"servers": {"s1": True}},
        {"servers": {"s1": [1, "2"]}},
    ],
)
async def test_weights_that_are_none_are_refused(document: Any) -> None:
    with pytest.raises(BadRequest):
        await routes(Service()).call(b"PUT", ["weights"], ROOT, document)


async def test_what_is_not_served_is_said_so() -> None:
    with pytest.raises(NotServed):
        await routes(Service()).call(b"PUT", ["servers"], ROOT, {})


async def test_a_server_alone_is_its_own_cluster_of_one() -> None:
    alone = routes(None)
    _, shown = await alone.call(b"GET", [], ROOT, {})
    assert [(one["name"], one["state"]) for one in shown["servers"]] == [("s1", "serving")]
    assert (shown["partitions"], shown["clustered"]) == (4, False)
    with pytest.raises(NotClustered) as caught:
        await alone.call(b"POST", ["servers", "s1", "drain"], ROOT, {})
    assert status_of(caught.value) == 409
    for method, parts in ((b"GET", []), (b"GET", ["partitions"]), (b"PUT", ["weights"])):
        with pytest.raises(PermissionDenied):
            await alone.call(method, parts, EVE, {})
