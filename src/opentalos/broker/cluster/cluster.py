"""Cluster: composes membership, ownership, handover and controller of one server.

``open_broker`` makes one if the server has peers; a single server has none.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from opentalos.broker.cluster.cluster_ownership import ClusterLeaderEpochs, ClusterOwnership
from opentalos.broker.cluster.control.controller import Controller, ControllerContext
from opentalos.broker.cluster.handover import Handover
from opentalos.broker.cluster.membership import LEND, Membership, SessionCallbacks
from opentalos.broker.cluster.ownership_guard import ClusterOwnershipGuard
from opentalos.broker.cluster.records import RING, ServerRecord
from opentalos.broker.cluster.state import ClusterState, leaving_path
from opentalos.broker.cluster.warm_up import warm_up
from opentalos.broker.context import BrokerConfig
from opentalos.catalog.topics.topics import TopicCatalog
from opentalos.log.log_store import LogStore
from opentalos.model.errors import PartitionNotServing, TalosError
from opentalos.model.limits import ClusterLimits
from opentalos.ports.clock import Clock
from opentalos.ports.file_store import FileStore
from opentalos.ports.meta_store import MetaStore
from opentalos.ports.peers import Peers

_log = logging.getLogger("opentalos.cluster")

SEAL_SHARE = 1 / 2  # of the time that a stop may take, for sealing
LEND_SHARE = 1 / 3  # of that time at most, for handing partitions to others
LENT_LOOK_S = 0.02  # between two looks whether all of them are handed off
ANNOUNCE_S = 1.0  # for each announcement while stopping; the stop itself has few seconds


class Cluster:
    """Control records, membership, ownership, handover and controller of one server.

    Order of calls: ``attach`` the log and the topics, ``enter`` the cluster, load the catalogs,
    ``serve``. A graceful stop: ``retire``, seal the log, ``leave``.
    """

    def __init__(
        self, meta: MetaStore, files: FileStore, peers: Peers, clock: Clock, config: BrokerConfig
    ) -> None:
        self.limits = config.cluster or ClusterLimits()
        me = ServerRecord(
            name=config.server,
            incarnation=config.incarnation,
            address=config.advertise,
            started_ms=clock.wall_ms(),
            kafka=config.kafka,
        )
        self.peers = peers
        self._files, self._clock, self._drain_s = files, clock, config.drain_s
        self.state = ClusterState(meta, self._record_changed)
        self.ownership = ClusterOwnership(self.state, me)
        self.epochs = ClusterLeaderEpochs(self.state)
        self.membership = Membership(self.state, peers, self.limits, me)
        self.guard = ClusterOwnershipGuard(self.state, self.ownership, self.membership, self.limits)
        self.handover: Handover
        self.controller: Controller
        self.lapsed: Callable[[], None] = lambda: None  # drop what depends on the session
        self.returned: Callable[[], None] = lambda: None  # the session is valid again
        self.ring_changed: Callable[[], None] = lambda: None  # groups have other coordinators
        self._attached = self._announced = False

    def attach(self, log: LogStore, topics: TopicCatalog) -> None:
        """Connect the log and the topics of the broker."""

        def placed() -> Iterable[tuple[str, int]]:
            # Also partitions that a shrink removed: retention still drops what they store.
            return [(topic.uuid, topic.partitions_ever) for topic in topics.all()]

        self.guard.attach(topics)
        self.handover = Handover(self.state, self.ownership, self.guard, log, self.epochs)
        self.controller = Controller(
            ControllerContext(
                state=self.state,
                peers=self.peers,
                clock=self._clock,
                limits=self.limits,
                me=self.membership.me,
                topics=placed,
                session=self.state.meta.session,
            )
        )
        self.ownership.leading = lambda: self.controller.leading
        self._attached = True

    def follow(
        self,
        lapsed: Callable[[], None],
        returned: Callable[[], None],
        ring_changed: Callable[[], None],
    ) -> None:
        """Call ``lapsed`` when the session lapses, ``returned`` when this server is a member again,
        ``ring_changed`` when groups have new owners."""
        self.lapsed, self.returned, self.ring_changed = lapsed, returned, ring_changed

    def coordinates(self, group: str) -> bool:
        """Whether this server is the coordinator of the consumer groups of this name."""
        try:
            self.ownership.check_group(group)
        except PartitionNotServing:
            return False
        return True

    def topic_changed(self) -> None:
        """A topic was created, changed or deleted."""
        self.controller.wake()

    async def enter(self) -> None:
        """Load the control records and become a member. Raises: ConfigError, TalosError."""
        await self.state.start()
        await self.membership.register()

    async def serve(self) -> None:
        """Serve assigned partitions and start the controller; the catalogs are loaded."""
        self.ownership.serving = True
        self.membership.watch(
            SessionCallbacks(
                lapsed=self._lapsed, resume=self.handover.resume, returned=self._returned
            )
        )
        self.handover.start()
        await self.controller.start()

    async def take_back(self) -> None:
        """Requests are answered from now on: what was lent for the restart may come back."""
        if self.limits.restart == LEND:
            await warm_up(self._files, self.membership.me.name)
        self.membership.serves()

    async def announce_restart(self) -> None:
        """Ask the others to keep this server's partitions for its return, or to serve them until
        then, by the setting; never raises. In the second case it waits until they do."""
        try:
            async with asyncio.timeout(ANNOUNCE_S):
                await self.membership.announce_restart()
        except (TalosError, TimeoutError) as error:
            _log.warning("could not announce the restart, so partitions will move: %r", error)
        else:
            if self.limits.restart == LEND and not self._announced:
                self._announced = True  # a stop announces again; what was not lent by now stays
                await self._lend()

    async def _lend(self) -> None:
        """Wait until others serve what this server has; what is left at the end is sealed, and
        taken over when this server is gone. Requests under way and sealing have their time
        after it."""
        stop_s = self.limits.stop_s
        before_seal_s = stop_s * (1 - SEAL_SHARE) - self._drain_s - ANNOUNCE_S
        lend_s = min(stop_s * LEND_SHARE, before_seal_s)
        until_s = asyncio.get_running_loop().time() + lend_s
        while not self.handover.empty and self._may_borrow():
            if asyncio.get_running_loop().time() >= until_s:
                _log.warning("not every partition was lent in time, the rest is taken over")
                return
            await asyncio.sleep(LENT_LOOK_S)

    def _may_borrow(self) -> bool:
        """Whether there is another server that is not leaving too."""
        others = self.state.live().keys() - {self.membership.me.name}
        return any(self.state.leaving.get(leaving_path(name)) is None for name in others)

    async def retire(self) -> None:
        """Announce the restart; stop the controller and the handover."""
        await self.announce_restart()
        await self.controller.close()
        await self.handover.close()

    async def leave(self) -> None:
        """Everything is sealed: end the membership."""
        self.ownership.serving = False
        try:
            async with asyncio.timeout(ANNOUNCE_S):
                await self.membership.close()
        except (TalosError, TimeoutError) as error:
            _log.warning("could not remove the record, it expires with the session: %r", error)
        await self.state.close()

    def _record_changed(self, path: str) -> None:
        self.ownership.record_changed(path)
        self.membership.record_changed(path)
        if path == RING:
            # The new ring is visible only after this call.
            asyncio.get_running_loop().call_soon(self._ring_changed)
        if self._attached:
            self.handover.record_changed(path)
            self.controller.wake()

    def _ring_changed(self) -> None:
        self.ring_changed()

    def _lapsed(self) -> None:
        self.ownership.away = True
        self.handover.stand_still()
        self.lapsed()

    def _returned(self) -> None:
        self.ownership.away = False
        self.returned()
        self.handover.restart()
        self.controller.wake()
