"""Auditing: sends audit events to the topic ``__audit``; keeps them on disk while it is away."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from opentalos import __version__
from opentalos.adapters.spool import Outbox, Spool
from opentalos.broker.audit.trail import Act, Origin
from opentalos.broker.broker import Broker
from opentalos.gateway.http.request_scope import current_peer, current_request_id
from opentalos.model.errors import TalosError
from opentalos.model.identity import Principal
from opentalos.model.names import AUDIT_TOPIC, SYSTEM_TENANT
from opentalos.model.settings.security import AuditSettings

FOLDER: Final = "audit"  # in the data directory
STOP_S: Final = 0.3  # to store the last events in the topic at shutdown
RETRY_S: Final = 10.0  # between attempts to store what is on disk
_SERVICE: Final = Principal(id=SYSTEM_TENANT, number=0)

_log = logging.getLogger("opentalos.server")


class Auditing:
    """Runs from ``start`` to ``stop``; failures here never affect the server's requests."""

    def __init__(self, settings: AuditSettings, broker: Broker, data: Path) -> None:
        self._settings, self._broker = settings, broker
        spool = Spool(data / FOLDER, settings.spool_bytes_max)
        self._outbox = Outbox(spool, self._put, what="audit events")
        self._task: asyncio.Task[None] | None = None

    async def start(self, configuration: str) -> None:
        """Record from now on, first the start itself. Args: configuration: what was configured."""
        trail, sink = self._broker.context.audit, None
        if self._settings.enabled:
            try:
                await self._outbox.start()
            except TalosError as error:
                _log.warning("audit events are only logged until the next start: %s", error)
            else:
                sink = self._offer
                self._task = asyncio.get_running_loop().create_task(self._retry())
        trail.connect(sink, _origin)
        trail.lost = lambda: self.lost
        details = {"version": __version__, "configuration": configuration}
        server = self._broker.context.config.server
        trail.record(_SERVICE, Act("start the server", server, "", details))

    async def stop(self) -> None:
        """Store or keep what is left; takes little more than ``STOP_S``."""
        self._broker.refused_callers.close()
        if self._task is None:
            return
        self._broker.context.audit.connect(None, _origin)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._outbox.close(STOP_S)

    @property
    def lost(self) -> int:
        """Events that neither the topic nor the disk took, since the start."""
        return self._outbox.figures.dropped

    def _offer(self, event: bytes) -> None:
        self._outbox.offer([event])

    async def _retry(self) -> None:
        known = 0
        while True:
            await asyncio.sleep(RETRY_S)
            self._outbox.offer(())
            if self.lost > known:
                known = self.lost
                _log.error(
                    "dropped %d audit events since the start: neither %s nor the disk takes them",
                    known,
                    AUDIT_TOPIC,
                )

    async def _put(self, events: Sequence[bytes]) -> None:
        await self._broker.system_topics.put(AUDIT_TOPIC, events, key=FOLDER)


def _origin() -> Origin:
    return Origin(current_peer(), current_request_id())
