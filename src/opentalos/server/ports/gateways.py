"""The gateways of one server over its broker, and the routes of its port."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from opentalos.adapters.oidc.settings import OidcSettings
from opentalos.adapters.sqlite import log_cuts
from opentalos.adapters.thread_start import thread_start_failures
from opentalos.broker.admin.certificate_principals import CertificatePrincipals
from opentalos.broker.admin.token_principals import TokenPrincipals
from opentalos.broker.broker import Broker
from opentalos.gateway.api_page import page as api_page
from opentalos.gateway.health import Readiness
from opentalos.gateway.http.exchange import Exchange, Handler
from opentalos.gateway.http.server import HttpServer
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.gateway.metrics.page import MetricsPage
from opentalos.gateway.metrics.sources import ProcessFigures, Sources
from opentalos.gateway.peer.calls import PeerGateway
from opentalos.gateway.peer.forwarding import Forwarding
from opentalos.gateway.peer.proofs import ProofReader
from opentalos.gateway.rest.gateway import RestGateway
from opentalos.gateway.rest.token_callers import TokenCallers
from opentalos.gateway.sds_http.gateway import SdsGateway
from opentalos.gateway.sds_http.handlers import Services
from opentalos.gateway.session.callers import Callers
from opentalos.gateway.session.claimed_callers import ClaimedCallers
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.gateway.thrift_http.gateway import ThriftGateway
from opentalos.gateway.thrift_http.handlers import HANDLERS
from opentalos.model.identity import parse_rules
from opentalos.server.cluster_join import Member
from opentalos.server.config import Config
from opentalos.server.measuring.descriptor_watch import DescriptorWatch
from opentalos.server.measuring.loop_watch import LoopWatch
from opentalos.server.ports.tls import ServerTls
from opentalos.wire.peer_proof import PeerKey


@dataclass(frozen=True, slots=True)
class Gateways:
    """Handlers by path, and the gateways to drain."""

    thrift: ThriftGateway
    rest: RestGateway
    sds: SdsGateway
    authenticator: Authenticator
    certificates: CertificatePrincipals | None
    tokens: TokenCallers | None
    exact: Mapping[bytes, Handler]
    prefixes: Sequence[tuple[bytes, Handler]]

    async def drain(self, timeout_s: float) -> None:
        """Wait for calls under way, then cancel those that hang."""
        gateways = (self.thrift, self.rest, self.sds)
        await asyncio.gather(*(gateway.drain(timeout_s) for gateway in gateways))


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """The port that serves the gateways, and its figures for metrics."""

    http: HttpServer
    kafka: KafkaPort
    readiness: Readiness
    tls: ServerTls
    watch: LoopWatch
    files_short: Callable[[], int]  # of replicas
    descriptors: DescriptorWatch = field(default_factory=DescriptorWatch)

    def figures(self) -> ProcessFigures:
        """Figures of the process."""
        return ProcessFigures(
            loop_blocked_s=self.watch.blocked_s,
            loop_blocked_longest_s=self.watch.longest_s,
            loop_blocked_recent_s=self.watch.recent_s(),
            tls_reloads=self.tls.reloads,
            tls_reload_failures=self.tls.reload_failures,
            thread_start_failures=thread_start_failures(),
            descriptors_exhausted=self.descriptors.exhausted,
            hdfs_files_short=self.files_short(),
            wal_tail_cuts=log_cuts(),
            tls_expires_s=self.tls.expires_s,
        )


def open_gateways(broker: Broker, config: Config, member: Member | None, port: Port) -> Gateways:
    """Compose the gateways; ``member`` is None for a single server."""
    certificates = None
    if config.tls.client_principals:
        rules = parse_rules(config.tls.client_principals)
        certificates = CertificatePrincipals(broker.catalogs.principals, rules)
    authenticator = Authenticator(
        broker.principals, config.auth, certificates, broker.refused_callers.add
    )
    forwarding: Forwarding | None = None
    proofs: ProofReader | None = None
    prefixes: list[tuple[bytes, Handler]] = []
    if member is not None:
        proofs = ProofReader(PeerKey(member.key))
        context = broker.context
        forwarding = Forwarding(member.peers, proofs, context.ownership, context.appeared)
        prefixes += PeerGateway(broker.peer_calls, proofs).prefix_routes()
        if broker.cluster is not None:
            broker.cluster.count(forwarding.counters)
    thrift = ThriftGateway(broker, authenticator, HANDLERS, forwarding)
    tokens = _token_callers(broker, config.oidc, authenticator)
    callers = Callers(authenticator, broker.sessions, tokens)
    rest = RestGateway(broker, callers, forwarding)
    prefixes += rest.prefix_routes()
    tables = Services(
        broker.tables, broker.table_admin, broker.shards, broker.put_fast_path, broker.work
    )
    sds = SdsGateway(tables, authenticator)
    sources = Sources(
        broker=broker,
        http=port.http,
        thrift=thrift,
        sds=sds,
        rest=rest,
        kafka=port.kafka,
        forwarding=forwarding,
        process=port.figures,
    )
    port.http.budget.identify = ClaimedCallers(authenticator, proofs).identify
    metrics = MetricsPage(config.metrics, sources, authenticator)
    port.readiness.broker = broker
    port.readiness.descriptors_lacking = port.descriptors.recently
    if config.console.enabled:
        # A server without it does not load its libraries.
        from opentalos.gateway.console.gateway import ConsoleGateway

        served = ConsoleGateway(rest.serve, config.console, broker.context.config.server)
        prefixes += served.prefix_routes()
    exact: dict[bytes, Handler] = {
        **thrift.routes(),
        **sds.routes(),
        **port.readiness.routes(),
        b"/metrics": metrics.serve,
        b"/": _status_page(broker, callers),
        **api_page.routes(),
    }
    return Gateways(thrift, rest, sds, authenticator, certificates, tokens, exact, prefixes)


def _status_page(broker: Broker, callers: Callers) -> Handler:
    """The page for browsers; loaded when one asks, since most servers are never looked at."""
    serve: Handler | None = None

    def serve_page(exchange: Exchange) -> None:
        nonlocal serve
        if serve is None:
            from opentalos.gateway.status_page import StatusPage

            serve = StatusPage(broker, callers).serve
        serve(exchange)

    return serve_page


def _token_callers(
    broker: Broker, settings: OidcSettings, authenticator: Authenticator
) -> TokenCallers | None:
    if not settings.enabled:
        return None
    # A server without tokens does not load the libraries.
    from opentalos.adapters.oidc.issuer_keys import IssuerKeys
    from opentalos.adapters.oidc.key_fetch import KeyFetch
    from opentalos.adapters.oidc.verifier import TokenVerifier

    verifier = TokenVerifier(settings, IssuerKeys(settings, KeyFetch(settings)))
    create = settings.create_principals
    principals = TokenPrincipals(broker.catalogs.principals, create=create)
    return TokenCallers(verifier, principals, authenticator)
