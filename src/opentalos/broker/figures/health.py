"""HealthService: the alarms of all servers, for those who may read metrics."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from opentalos.broker.context import BrokerContext
from opentalos.broker.figures.alarms import Alarm, Severity, alarms_of
from opentalos.broker.figures.scope import READ_METRICS
from opentalos.broker.figures.values import Figures
from opentalos.broker.peer_rpc.calls import HEALTH
from opentalos.broker.peer_rpc.client import call_peer
from opentalos.broker.peer_rpc.messages import Empty, HealthReply
from opentalos.model.errors import TalosError
from opentalos.model.identity import Principal

__all__ = ["Alarm", "HealthService", "ServerHealth"]

GATHER_S: Final = 2.0  # for all servers together
SERVERS_AT_ONCE: Final = 16


class ServerHealth(NamedTuple):
    """A server and its alarms."""

    server: str
    answers: bool
    alarms: Sequence[Alarm]


class HealthService:
    """Args: live: addresses of the servers of the cluster by name.

    ``figures`` is set when the server's gateways are made: it needs the whole broker.
    """

    def __init__(self, context: BrokerContext, live: Callable[[], Mapping[str, str]]) -> None:
        self._context, self._live = context, live
        self.figures: Callable[[], Figures] | None = None

    async def read(self, caller: Principal) -> Sequence[ServerHealth]:
        """By server name. Raises: PermissionDenied."""
        self._context.authorizer.authorize_admin(caller, READ_METRICS, "health")
        me, turns = self._context.config.server, asyncio.Semaphore(SERVERS_AT_ONCE)

        async def ask(name: str, address: str) -> ServerHealth:
            if name == me:
                return ServerHealth(name, True, self._alarms())
            try:
                async with asyncio.timeout(GATHER_S), turns:
                    reply = await call_peer(self._context.peers, address, HEALTH, Empty())
            except (TalosError, TimeoutError) as error:
                text = f"it did not answer: {str(error) or f'no reply within {GATHER_S:g} s'}"
                down = Alarm("ServerDown", Severity.CRITICAL, text)
                return ServerHealth(name, False, [down])
            return ServerHealth(name, True, [Alarm(*alarm) for alarm in reply.alarms])

        live = {me: "", **self._live()}
        return await asyncio.gather(*(ask(name, live[name]) for name in sorted(live)))

    async def answer(self, _: Empty) -> HealthReply:
        """The peer call "health": this server's alarms."""
        return HealthReply([(alarm.name, alarm.severity, alarm.text) for alarm in self._alarms()])

    def _alarms(self) -> Sequence[Alarm]:
        return alarms_of(self.figures()) if self.figures is not None else ()
