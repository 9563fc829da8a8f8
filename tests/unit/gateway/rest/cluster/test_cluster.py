"""REST of the cluster: what goes to the service, what a server alone answers."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.gateway.rest.support import Rest

from opentalos.broker.cluster.control.publication import Move
from opentalos.broker.cluster.partition_places import PartitionPlace
from opentalos.broker.cluster.service import (
    ClusterStatus,
    ServerState,
    ServerStatus,
    WeightsProposed,
)
from opentalos.model.identity import Principal
from opentalos.model.message import PartitionKey
from opentalos.placement.weights import Proposal

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

    async def propose_weights(self, caller: Principal, days: Any, budget: float) -> WeightsProposed:
        self.calls.append(("propose", days, budget))
        proposal = Proposal(
            weights={"s1": [1, 2]},
            loads_before={"s1": 7},
            loads_after={"s1": 5},
            moves={PartitionKey("u", 3): ("s1", "s2")},
        )
        return WeightsProposed(
            proposal=proposal, ring={"s1": [2, 2]}, weights={"s1": [1, 2], "s3": [4, 4]},
            partitions=8, moves_max=1, variance_before=2.5, variance_after=1.0,
        )  # fmt: skip


class Places:
    """One partition."""

    async def of_topic(self, caller: Principal, name: str) -> list[PartitionPlace]:
        return [PartitionPlace(partition=0, address="h:1", epoch=3, owner="s1")]


@pytest.fixture
def service(call: Rest, monkeypatch: pytest.MonkeyPatch) -> Service:
    """The broker is a member of a cluster that ``Service`` stands for."""
    made = Service()
    monkeypatch.setattr(call.world.broker, "cluster", made)
    monkeypatch.setattr(call.world.broker, "places", Places())
    forwarding: Any = SimpleNamespace(accept=lambda e: True, counters=lambda: {"requests": 5})
    monkeypatch.setattr(call.gateway, "_forwarding", forwarding)
    return made


async def test_the_status_is_shown_as_json_with_this_servers_counters(
    call: Rest, service: Service
) -> None:
    status, shown, _ = await call("GET", "cluster")
    assert status == 200
    assert shown["servers"][0]["state"] == "draining"
    assert shown["moving"][0]["target"] == "s2"
    assert (shown["clustered"], shown["answered_by"]) == (True, "s1")
    assert shown["forwarding"] == {"requests": 5}


async def test_the_places_of_a_topic_are_shown(call: Rest, service: Service) -> None:
    shown = (await call("GET", "cluster/topics/t")).document
    assert shown["partitions"] == [{"partition": 0, "address": "h:1", "epoch": 3, "owner": "s1"}]
    assert (await call("GET", "cluster/partitions")).document == {"topics": {"u": 8}}


@pytest.mark.parametrize(
    ("method", "path", "document", "called"),
    [
        ("POST", "servers/s2/drain", None, ("drain", "s2")),
        ("DELETE", "servers/s2/drain", None, ("undrain", "s2")),
        ("PUT", "weights", {"servers": {"s1": 200}}, ("weights", {"s1": 200})),
        ("PUT", "weights", {"servers": {"s1": [1, 2]}}, ("weights", {"s1": [1, 2]})),
    ],
)
async def test_commands_go_to_the_service(
    call: Rest, service: Service, method: str, path: str, document: Any, called: Any
) -> None:
    assert (await call(method, f"cluster/{path}", document)).status == 204
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
async def test_weights_that_are_none_are_refused(
    call: Rest, service: Service, document: Any
) -> None:
    assert (await call("PUT", "cluster/weights", document)).status == 400
    assert service.calls == []


async def test_weights_are_proposed_and_not_set(call: Rest, service: Service) -> None:
    sent = {"days": [{"u": [5, 0, 7]}, {}], "budget": 0.5}
    shown = (await call("POST", "cluster/weights/proposals", sent)).document
    traffic = {PartitionKey("u", 0): 5, PartitionKey("u", 2): 7}
    assert service.calls == [("propose", [traffic, {}], 0.5)]
    assert shown["weights"] == {"s1": [1, 2], "s3": [4, 4]}
    assert shown["moves"] == [{"topic_uuid": "u", "partition": 3, "source": "s1", "target": "s2"}]
    assert (shown["variance_before"], shown["variance_after"], shown["moved"]) == (2.5, 1.0, 1)
    unfit: list[Any] = [{}, {"days": []}, {"days": [{"u": [-1]}]}, {"days": [{"u": 1}]}]
    for wrong in unfit:
        assert (await call("POST", "cluster/weights/proposals", wrong)).status == 400
    above = {"days": [{"u": [1]}], "budget": 101}
    assert (await call("POST", "cluster/weights/proposals", above)).status == 422
    assert len(service.calls) == 1


async def test_what_is_not_served_is_said_so(call: Rest, service: Service) -> None:
    assert (await call("PUT", "cluster/servers")).status == 404


async def test_a_server_alone_is_its_own_cluster_of_one(call: Rest) -> None:
    alice = call.world.broker.catalogs.principals.get("alice")
    assert alice is not None
    await call.world.topic(alice, partitions=4)
    shown = (await call("GET", "cluster")).document
    assert [(server["name"], server["state"]) for server in shown["servers"]] == [("s1", "serving")]
    assert (shown["partitions"], shown["clustered"]) == (4, False)
    replied = await call("POST", "cluster/servers/s1/drain")
    assert (replied.status, replied.document["title"]) == (409, "NotClustered")
    traffic = {"days": [{"u": [1]}]}
    assert (await call("POST", "cluster/weights/proposals", traffic)).status == 409
    assert (await call("POST", "cluster/weights/proposals", traffic, by="alice")).status == 403
    assert (await call("GET", "cluster", by="alice")).status == 403
    replied = await call("PUT", "cluster/weights", {"servers": {}}, by="alice")
    assert replied.status == 403
