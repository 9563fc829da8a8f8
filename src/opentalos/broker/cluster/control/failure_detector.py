"""FailureDetector: finds servers that died by their ports, long before their sessions expire."""

import asyncio
import logging
from collections.abc import Callable, Iterable

from opentalos.broker.cluster.records import ServerRecord
from opentalos.model.errors import TalosError
from opentalos.model.limits import ClusterLimits
from opentalos.ports.peers import Peers

_log = logging.getLogger("opentalos.cluster")

PROBE_S_MAX = 2.0  # a probe that takes longer is no refusal


class FailureDetector:
    """Probes the servers given to ``follow``; calls ``changed()`` when a verdict changes.

    A server whose port refuses, and refuses again ``probe_confirm_s`` later, is dead in this
    incarnation, until its port has answered for ``stable_after_s``. A paused or unreachable server
    does not refuse. One task per server, so that a slow probe delays no other.
    """

    def __init__(self, peers: Peers, limits: ClusterLimits, changed: Callable[[], None]) -> None:
        self._peers, self._limits, self._changed = peers, limits, changed
        self._tasks: dict[str, tuple[ServerRecord, asyncio.Task[None]]] = {}
        self._dead: dict[str, ServerRecord] = {}

    def follow(self, servers: Iterable[ServerRecord]) -> None:
        """Probe these from now on, and no others; verdicts on others are kept."""
        wanted = {record.name: record for record in servers}
        for name, (record, task) in list(self._tasks.items()):
            if wanted.get(name) != record:
                task.cancel()
                del self._tasks[name]
        for name, record in wanted.items():
            if name not in self._tasks:
                task = asyncio.create_task(self._watch(record), name=f"probe {name}")
                self._tasks[name] = (record, task)

    def dead(self, server: ServerRecord) -> bool:
        """Whether this incarnation was found dead."""
        return self._dead.get(server.name) == server

    async def close(self) -> None:
        """Stop probing."""
        tasks = [task for _, task in self._tasks.values()]
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self, record: ServerRecord) -> None:
        loop = asyncio.get_running_loop()
        answers_since_s: float | None = None
        while True:
            refused = await self._refuses(record.address)
            if refused and not self.dead(record):
                await asyncio.sleep(self._limits.probe_confirm_s)
                if await self._refuses(record.address):
                    _log.warning(
                        "server %s at %s refuses connections, treating it as dead",
                        record.name,
                        record.address,
                    )
                    self._dead[record.name] = record
                    self._changed()
            if refused or not self.dead(record):
                answers_since_s = None
            elif answers_since_s is None:
                answers_since_s = loop.time()
            elif loop.time() >= answers_since_s + self._limits.stable_after_s:
                _log.warning("server %s at %s answers again", record.name, record.address)
                del self._dead[record.name]
                self._changed()
            await asyncio.sleep(self._limits.probe_interval_s)

    async def _refuses(self, address: str) -> bool:
        try:
            async with asyncio.timeout(PROBE_S_MAX):
                return await self._peers.refuses(address)
        except (TalosError, TimeoutError):
            return False
