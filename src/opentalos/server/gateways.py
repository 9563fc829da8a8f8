"""The gateways of one server over its broker, and the routes of its port."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from opentalos.broker.broker import Broker
from opentalos.gateway.http.exchange import Handler
from opentalos.gateway.peer.calls import PeerGateway
from opentalos.gateway.peer.forwarding import Forwarding
from opentalos.gateway.peer.proofs import ProofReader
from opentalos.gateway.rest.gateway import RestGateway
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.gateway.thrift_http.gateway import ThriftGateway
from opentalos.gateway.thrift_http.handlers import HANDLERS
from opentalos.server.config import Config
from opentalos.server.member import Member
from opentalos.wire.peer_proof import PeerKey


@dataclass(frozen=True, slots=True)
class Gateways:
    """Handlers by path, and what has to be drained."""

    thrift: ThriftGateway
    exact: Mapping[bytes, Handler]
    prefixes: Sequence[tuple[bytes, Handler]]


def open_gateways(broker: Broker, config: Config, member: Member | None) -> Gateways:
    """Compose them; ``member`` is None where the server is alone."""
    authenticator = Authenticator(broker.principals, config.auth)
    forwarding: Forwarding | None = None
    prefixes: list[tuple[bytes, Handler]] = []
    if member is not None:
        proofs = ProofReader(PeerKey(member.key))
        context = broker.context
        forwarding = Forwarding(member.peers, proofs, context.ownership, context.appeared)
        prefixes += PeerGateway(broker.peer_calls, proofs).prefix_routes()
        if broker.cluster is not None:
            broker.cluster.count(forwarding.counters)
    thrift = ThriftGateway(broker, authenticator, HANDLERS, forwarding)
    rest = RestGateway(broker, authenticator, forwarding)
    prefixes += rest.prefix_routes()
    return Gateways(thrift, thrift.routes() | rest.exact_routes(), prefixes)
