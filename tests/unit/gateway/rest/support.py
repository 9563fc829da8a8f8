"""A REST gateway over a whole broker, without sockets."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

from tests.unit.broker.support import World, world
from tests.waiting import within_limit

from opentalos.broker.broker import Broker
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.rest.gateway import RestGateway
from opentalos.gateway.rest.routes import TABLE
from opentalos.gateway.rest.routing.openapi import statuses_of
from opentalos.gateway.rest.routing.schema import check
from opentalos.gateway.session.callers import Callers
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.identity import Principal
from opentalos.model.settings.security import AuthLimits


class Replied(NamedTuple):
    """A reply: its document, or its text where it is none."""

    status: int
    document: Any
    headers: Mapping[str, str]


@dataclass
class Rest:
    """Calls as one user or another; every answer is checked against what is documented."""

    world: World
    gateway: RestGateway
    tokens: dict[str, bytes] = field(default_factory=dict)

    async def user(self, name: str, **fields: Any) -> Principal:
        """A principal with a key, to call as."""
        root = self.world.broker.catalogs.principals.get("root")
        assert root is not None
        principals = self.world.broker.principals
        made = await principals.create(root, name, **fields)
        key = await principals.create_key(root, name)
        self.tokens[name] = base64.b64encode(f"{key.key_id}:{key.secret}".encode())
        return made

    async def __call__(
        self,
        method: str,
        path: str,
        document: Any = None,
        *,
        by: str = "root",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Replied:
        """One call, below /rest/v1."""
        sent = {name.lower().encode(): value.encode() for name, value in (headers or {}).items()}
        if by:
            sent.setdefault(b"authorization", b"Basic " + self.tokens[by])
        if document is not None:
            body = json.dumps(document).encode()
        if body is not None:
            sent.setdefault(b"content-type", b"application/json")
        replied = await exchanged(self.gateway, method, f"/rest/v1/{path}", sent, body or b"")
        self._check(method, path, replied)
        return replied

    @staticmethod
    def _check(method: str, path: str, replied: Replied) -> None:
        """The status is documented for the route, and the answer fits its schema."""
        try:
            route = TABLE.find(method, path.partition("?")[0].encode()).route
        except Exception:
            return
        if replied.status == route.status:
            if route.reply is not None:
                check(route.reply, replied.document, "the answer")
        else:
            assert replied.status in statuses_of(route), (route.path, replied)


async def exchanged(
    gateway: RestGateway,
    method: str,
    url: str,
    headers: dict[bytes, bytes],
    body: bytes,
    **of_connection: Any,
) -> Replied:
    """Hand a request to the gateway and wait for its reply.

    Args: of_connection: its attributes; by default private, without TLS and certificate.
    """
    replied: asyncio.Future[Replied] = asyncio.get_running_loop().create_future()

    def answer(exchange: Exchange, prefix: bytes, body: bytes, extra: bytes) -> None:
        lines = (prefix + b"0\r\n" + extra).decode().split("\r\n")[1:]
        names = dict(line.split(": ", 1) for line in lines if line)
        document = json.loads(body) if body else None
        replied.set_result(Replied(int(prefix.split()[1]), document, names))

    def answer_chunks(exchange: Exchange, prefix: bytes, chunks: Sequence[bytes]) -> None:
        first, _, rest = prefix.partition(b"\r\n")
        answer(
            exchange, first + b"\r\nContent-Length: ", b"".join(chunks), b"\r\n" + rest + b"0\r\n"
        )

    usual = {"secure": False, "certificate": None, "private": True}
    connection: Any = SimpleNamespace(
        answer=answer,
        answer_chunks=answer_chunks,
        alive=True,
        peer="192.0.2.1",
        network="192.0.2.1",
        extend=lambda seconds, waits=False: None,
        **usual | of_connection,
    )
    exchange = Exchange(connection, method.encode(), url.encode(), headers)
    exchange.body = body
    dict(gateway.prefix_routes())[b"/rest/v1/"](exchange)
    async with within_limit("REST answers"):
        return await replied


def gateway_of(broker: Broker) -> RestGateway:
    """REST of a broker, with keys and sessions."""
    authenticator = Authenticator(
        broker.principals, AuthLimits(), refused=broker.refused_callers.add
    )
    return RestGateway(broker, Callers(authenticator, broker.sessions))


@asynccontextmanager
async def rest(**config: Any) -> AsyncIterator[Rest]:
    """A started broker behind REST, with its root and user alice."""
    async with world(**config) as made:
        broker = made.broker
        await broker.principals.ensure_root("AKROOT", "root-secret")
        client = Rest(made, gateway_of(broker))
        client.tokens["root"] = base64.b64encode(b"AKROOT:root-secret")
        await client.user("alice")
        yield client
