"""FailureDetector: finds servers that died by their ports, long before their sessions expire."""

import asyncio
from collections.abc import Callable, Iterable

from opentalos.broker.cluster.records import ServerRecord
from opentalos.model.limits import ClusterLimits
from opentalos.ports.peers import Peers


class FailureDetector:
    """Probes each server it is told to ``follow``; ``changed()`` is called when a verdict changes.

    A server whose port refuses, and refuses again ``probe_confirm_s`` later, is dead in this
    incarnation. A paused or unreachable one does not refuse.
    """

    def __init__(self, peers: Peers, limits: ClusterLimits, changed: Callable[[], None]) -> None:
        self._peers, self._limits, self._changed = peers, limits, changed

    def follow(self, servers: Iterable[ServerRecord]) -> None:
        """Probe these from now on, and no others."""

    def dead(self, server: ServerRecord) -> bool:
        """Whether this incarnation was found dead."""
        return False

    async def close(self) -> None:
        """Stop probing."""
        await asyncio.sleep(0)
