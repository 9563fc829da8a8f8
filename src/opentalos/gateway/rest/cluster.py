"""REST of the cluster: status, drain, weights; for service administrators."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import Enum
from typing import Any

from opentalos.broker.broker import Broker
from opentalos.broker.cluster.service import (
    ClusterService,
    ClusterStatus,
    ServerState,
    ServerStatus,
)
from opentalos.gateway.peer.forwarding import Forwarding
from opentalos.gateway.rest.errors import NotClustered, NotServed
from opentalos.model.errors import BadRequest
from opentalos.model.identity import Principal


class ClusterRoutes:
    """What lies below ``/rest/v1/cluster``. ``service`` is None where the server is alone."""

    def __init__(
        self, broker: Broker, service: ClusterService | None, forwarding: Forwarding | None
    ) -> None:
        self._broker, self._service, self._forwarding = broker, service, forwarding

    async def call(
        self, method: bytes, parts: Sequence[str], caller: Principal, document: Mapping[str, Any]
    ) -> tuple[int, Any]:
        """Status and document of one call; ``parts`` are the path's behind ``cluster``.

        Raises: PermissionDenied, NotClustered, NotServed, BadRequest and what the service says.
        """
        if (method, parts) == (b"GET", []):
            return 200, self._shown(await self._status(caller))
        service = self._service
        if service is None:
            self._check_admin(caller)
            raise NotClustered("this server is alone, not one of a cluster")
        match method, parts:
            case b"GET", ["partitions"]:
                return 200, {"topics": dict(await service.partitions(caller))}
            case b"PUT", ["weights"]:
                await service.set_weights(caller, _weights(document))
            case b"POST", ["servers", name, "drain"]:
                await service.drain(caller, name)
            case b"DELETE", ["servers", name, "drain"]:
                await service.undrain(caller, name)
            case b"GET", ["topics", name] if self._broker.places is not None:
                places = await self._broker.places.of_topic(caller, name)
                return 200, {"name": name, "partitions": [asdict(place) for place in places]}
            case _:
                raise NotServed("no such resource, or not with this method")
        return 204, None

    async def _status(self, caller: Principal) -> ClusterStatus:
        if self._service is not None:
            return await self._service.status(caller)
        self._check_admin(caller)
        context = self._broker.context
        partitions = sum(topic.consumer_partitions for topic in context.topics.all())
        me = ServerStatus(
            name=context.config.server,
            state=ServerState.SERVING,
            address=next(iter(context.ownership.addresses("", 1))),
            partitions=partitions,
            answers=True,
        )
        return ClusterStatus(
            leader=me.name,
            ring_number=0,
            servers=[me],
            partitions=partitions,
            unassigned=0,
            moving=[],
            recent=[],
        )

    def _check_admin(self, caller: Principal) -> None:
        self._broker.context.authorizer.authorize_admin(caller, "use the cluster", "cluster")

    def _shown(self, status: ClusterStatus) -> dict[str, Any]:
        shown: dict[str, Any] = _plain(asdict(status))
        shown["clustered"] = self._service is not None
        shown["answered_by"] = self._broker.context.config.server
        if self._forwarding is not None:
            shown["forwarding"] = self._forwarding.counters()
        return shown


def _weights(document: Mapping[str, Any]) -> Mapping[str, int | Sequence[int]]:
    servers = document.get("servers")
    if set(document) != {"servers"} or not isinstance(servers, dict):
        raise BadRequest('send {"servers": {NAME: VIRTUAL NODES, ...}}')
    for name, nodes in servers.items():
        for count in nodes if isinstance(nodes, list) else [nodes]:
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise BadRequest(f"virtual nodes of {name} must be whole numbers of 0 or more")
    return servers


def _plain(value: Any) -> Any:
    """The value as JSON has it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value
