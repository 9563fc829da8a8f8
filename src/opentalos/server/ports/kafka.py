"""The Kafka port of one server: composed at the start, loaded with its first connection."""

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from opentalos.broker.broker import Broker
from opentalos.gateway.http.fairness.connections import ConnectionRoom
from opentalos.gateway.http.fairness.turns import Turns
from opentalos.gateway.http.tls import TlsContext
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.model.address import is_loopback, split_address
from opentalos.model.errors import ConfigError
from opentalos.model.settings.kafka import KafkaSettings
from opentalos.server.config import parse_address
from opentalos.server.ports.gateways import Gateways

if TYPE_CHECKING:
    from opentalos.gateway.kafka.gateway import KafkaGateway

_WILDCARDS = ("0.0.0.0", "::")
_LOCAL_NAMES = ("localhost",)

_log = logging.getLogger("opentalos.kafka")


@dataclass(frozen=True, slots=True)
class Behind:
    """What the port serves."""

    broker: Broker
    gateways: Gateways  # how callers are found
    cluster: str  # its id; of a single server the server's name


class KafkaServer:
    """Listens for clients of Kafka, and closes their connections until ``serve`` is called: a
    member of a cluster must know its port before it has a broker."""

    def __init__(
        self,
        settings: KafkaSettings,
        room: ConnectionRoom | None = None,
        turns: Turns | None = None,
    ) -> None:
        self._settings = settings
        self.port = KafkaPort(settings, self._connection, room, turns)
        self._behind: Behind | None = None
        self._gateway: KafkaGateway | None = None

    async def listen(self, tls: TlsContext | None, host: str) -> str:
        """Start to listen; returns HOST:PORT for clients, empty if the settings name no address.

        Args: host: for clients, if the port listens on all addresses.
        Raises: ConfigError.
        """
        if not self._settings.listen:
            return ""
        own, port = parse_address(self._settings.listen, "[kafka] listen")
        try:
            port = await self.port.listen(own, port, tls)
        except OSError as error:
            raise ConfigError(
                f"[kafka] cannot listen on {self._settings.listen}: {error}"
            ) from error
        shown = host if own in _WILDCARDS else own
        return self._settings.advertise or (
            f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"
        )

    def serve(self, broker: Broker, gateways: Gateways, cluster: str) -> None:
        """Answer requests from now on."""
        self._behind = Behind(broker, gateways, cluster or broker.context.config.server)

    def _connection(self, port: KafkaPort) -> asyncio.BaseProtocol:
        if self._behind is None:
            return _NotReady()
        from opentalos.gateway.kafka.connection import KafkaConnection

        if self._gateway is None:
            self._gateway = self._opened(self._behind)
        return KafkaConnection(port, self._gateway)

    def _opened(self, behind: Behind) -> "KafkaGateway":
        from opentalos.gateway.kafka.gateway import KafkaGateway, Services
        from opentalos.gateway.kafka.handlers import TABLE
        from opentalos.gateway.kafka.mechanisms import Mechanisms

        authenticator = behind.gateways.authenticator
        services = Services(
            broker=behind.broker,
            authenticator=authenticator,
            mechanisms=Mechanisms(behind.broker, authenticator, behind.gateways.tokens),
            certificates=behind.gateways.certificates,
            port=self.port,
            cluster=behind.cluster,
            versions={key: served.versions for key, served in TABLE.items()},
        )
        return KafkaGateway(services, TABLE)

    async def drain(self, timeout_s: float) -> bool:
        """Stop accepting and let requests under way finish; True if all did in time."""
        finished = await self.port.drain(timeout_s)
        if self._gateway is not None:
            await self._gateway.drain(0.0)
        return finished


class _NotReady(asyncio.Protocol):
    """Closes at once; clients try again, or another server."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).abort()


def announced(kafka: str, advertise: str) -> str:
    """The address for clients of Kafka that the other servers learn; empty: none.

    Args: advertise: at which they reach this server's HTTP port.
    """
    if kafka and _only_here(kafka) and not _only_here(advertise):
        _log.info("clients of Kafka on other machines cannot reach this server: set [kafka] listen")
        return ""
    return kafka


def _only_here(address: str) -> bool:
    host = split_address(address)[0]
    return host in _LOCAL_NAMES or is_loopback(host)
