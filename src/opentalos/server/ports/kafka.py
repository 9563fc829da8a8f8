"""The Kafka port of one server: composed at the start, loaded with its first connection."""

import asyncio
from typing import TYPE_CHECKING

from opentalos.broker.broker import Broker
from opentalos.gateway.http.tls import TlsContext
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.errors import ConfigError
from opentalos.model.settings.kafka import KafkaSettings
from opentalos.server.config import parse_address

if TYPE_CHECKING:
    from opentalos.gateway.kafka.gateway import KafkaGateway


class KafkaServer:
    """Listens for clients of Kafka. ``address`` is empty until it does."""

    def __init__(
        self,
        settings: KafkaSettings,
        broker: Broker,
        authenticator: Authenticator,
        cluster: str = "",
    ) -> None:
        self._settings, self._broker, self._authenticator = settings, broker, authenticator
        self._cluster = cluster or broker.context.config.server
        self.port = KafkaPort(settings, self._connection)
        self.listening = self.address = ""  # here, and what clients are given
        self._gateway: KafkaGateway | None = None

    async def listen(self, tls: TlsContext | None) -> None:
        """Start to listen, unless the settings name no address. Raises: ConfigError."""
        if not self._settings.listen:
            return
        host, port = parse_address(self._settings.listen, "[kafka] listen")
        try:
            port = await self.port.listen(host, port, tls)
        except OSError as error:
            raise ConfigError(
                f"[kafka] cannot listen on {self._settings.listen}: {error}"
            ) from error
        self.listening = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.address = self._settings.advertise or self.listening
        self._broker.set_kafka(self.address)

    def _connection(self, port: KafkaPort) -> asyncio.Protocol:
        from opentalos.gateway.kafka.connection import KafkaConnection

        if self._gateway is None:
            self._gateway = self._opened()
        return KafkaConnection(port, self._gateway)

    def _opened(self) -> "KafkaGateway":
        from opentalos.gateway.kafka.gateway import KafkaGateway, Services
        from opentalos.gateway.kafka.handlers import TABLE

        services = Services(
            broker=self._broker,
            authenticator=self._authenticator,
            port=self.port,
            cluster=self._cluster,
            versions={key: served.versions for key, served in TABLE.items()},
        )
        return KafkaGateway(services, TABLE)

    async def drain(self, timeout_s: float) -> bool:
        """Stop accepting and let requests under way finish; True if all did in time."""
        finished = await self.port.drain(timeout_s)
        if self._gateway is not None:
            await self._gateway.drain(0.0)
        return finished
