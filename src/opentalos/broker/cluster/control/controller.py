"""Controller: one server decides who serves what, and publishes it."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from opentalos.broker.cluster.control.failure_detector import FailureDetector
from opentalos.broker.cluster.control.publication import Publication
from opentalos.broker.cluster.control.roster import Roster
from opentalos.broker.cluster.records import LEADER, Leader, ServerRecord, encode_record
from opentalos.broker.cluster.state import ClusterState, leaving_path, server_path
from opentalos.model.errors import AlreadyExists, TalosError
from opentalos.model.limits import ClusterLimits
from opentalos.placement.plan import plan
from opentalos.placement.ring import by_sector
from opentalos.placement.values import Nodes, Policy, Situation
from opentalos.ports.clock import Clock
from opentalos.ports.meta_store import Session
from opentalos.ports.peers import Peers

_log = logging.getLogger("opentalos.cluster")

LOOK_S = 1.0  # between two looks although nothing was told
MOVING_LOOK_S = 0.1  # while planned moves are under way
RETRY_S = 0.25  # after a turn that failed
FAILED_S = 5.0  # after one that failed as nobody planned: time for another server to lead
PACE_S = 0.02  # between two turns, so that changes that come together are planned together
RESIGN_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """What a controller works with.

    ``me``: this server's record. ``topics``: uuid and partition count of every active topic (those
    that consumers see). ``session``: of the meta store, as it is now.
    """

    state: ClusterState
    peers: Peers
    clock: Clock
    limits: ClusterLimits
    me: ServerRecord
    topics: Callable[[], Iterable[tuple[str, int]]]
    session: Callable[[], Session]


class Controller:
    """Runs on every server; the elected one plans and publishes, the others watch over it.

    ``wake`` is to be called (sync, cheap) whenever a control record or a topic changed; the
    ``changed`` of ClusterState and the topic listener may call it for everything. A controller
    that does not know yet that it was replaced can only cause moves: it asks its session before
    each write, and each write expects what the plan was made from.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._state = context, context.state
        limits = context.limits
        self._policy = Policy(
            stable_after_s=limits.stable_after_s,
            virtual_nodes=limits.virtual_nodes,
            moves_at_once=limits.moves_at_once,
        )
        self.detector = FailureDetector(context.peers, limits, self.wake)
        self.publication = Publication(self._state, context.clock, lambda: self.leading)
        self._roster = Roster(limits.stable_after_s)
        self._term: Leader | None = None  # this server's own record as controller
        self._woken = asyncio.Event()
        self._changed = False  # something that a plan depends on
        self._plan_at_s = float("-inf")  # a plan may change by itself then
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the loop; the state must have been started."""
        self._task = asyncio.create_task(self._run(), name="controller")

    async def close(self) -> None:
        """Stop, and give up the lead so that another server takes it at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self.detector.close()
        await self._resign()

    def wake(self) -> None:
        """Something changed: look again soon."""
        self._changed = True
        self._woken.set()

    @property
    def leading(self) -> bool:
        """Whether this server is the controller now."""
        term, session = self._term, self._context.session()
        return (
            term is not None
            and term.session == session.incarnation
            and self._steady(session)
            and self._state.leader == term
        )

    # --- the loop -------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                wait_s = await self._turn()
            except TalosError as error:
                _log.info("the controller tries again: %s", error)
                self._changed, wait_s = True, RETRY_S
            except Exception:
                # Without this loop the server would never stand for election again.
                _log.exception("the controller failed, another server takes the lead")
                await self._resign()
                self._changed, wait_s = True, FAILED_S
            else:
                await self._woken_within(wait_s)
                wait_s = PACE_S
            await asyncio.sleep(wait_s)

    async def _woken_within(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()

    async def _turn(self) -> float:
        """Do what is due; seconds until the next look. Raises: TalosError: look again soon."""
        if not self._steady(self._context.session()):
            self.detector.follow(())
            return RETRY_S
        leader = self._state.leader
        if leader is None or not await self._is_there(leader):
            await self._stand()
        if self.leading:
            return await self._lead()
        return LOOK_S

    def _steady(self, session: Session) -> bool:
        now_s = asyncio.get_running_loop().time()
        return session.connected and not session.lost and now_s <= session.valid_until_s

    # --- election -------------------------------------------------------------------------------

    async def _is_there(self, leader: Leader) -> bool:
        """Whether the leader can lead; a record that outlived it is removed."""
        if leader == self._term and leader.session == self._context.session().incarnation:
            return True
        server = self._state.live().get(leader.name)
        if not _is_of(leader, server):
            # Two watches tell of leaders and servers: only a fresh look at both decides.
            await self._state.servers.refresh(server_path(leader.name))
            await self._state.control.refresh(LEADER)
            if self._state.leader != leader:
                return self._state.leader is not None
            server = self._state.live().get(leader.name)
        if server is not None and _is_of(leader, server) and leader.name != self._context.me.name:
            self.detector.follow([server])
            if not self.detector.dead(server):
                return True
        _log.warning("%s leads no more", leader.name)
        await self._state.control.remove(LEADER, leader)
        return False

    async def _stand(self) -> None:
        """Try to become the controller; a server that is not registered cannot."""
        session, me = self._context.session(), self._context.me
        term = Leader(name=me.name, incarnation=me.incarnation, session=session.incarnation)
        if not _is_of(term, self._state.live().get(me.name)):
            return
        try:
            await self._state.meta.create(LEADER, encode_record(term), ephemeral=True)
            _log.info("%s leads the cluster now", me.name)
        except AlreadyExists:
            pass
        finally:
            await self._state.control.refresh(LEADER)
        if self._state.leader == term:
            self._term = term
            self._roster = Roster(self._context.limits.stable_after_s)
            self._changed = True

    async def _resign(self) -> None:
        term, self._term = self._term, None
        if term is None or self._state.leader != term:
            return
        try:
            async with asyncio.timeout(RESIGN_S):
                await self._state.control.remove(LEADER, term)
        except (TalosError, TimeoutError) as error:
            _log.warning("the lead ends with the session: %s", error)

    # --- the lead -------------------------------------------------------------------------------

    async def _lead(self) -> float:
        state, publication = self._state, self.publication
        now_s = asyncio.get_running_loop().time()
        live = state.live()
        self.detector.follow(
            record for name, record in live.items() if name != self._context.me.name
        )
        published = publication.moved_from()
        if not self._changed and not published and now_s < self._plan_at_s:
            return min(LOOK_S, self._plan_at_s - now_s)
        moving = await publication.unfinished(now_s, self._context.limits.handover_s)
        if not self._changed and moving == published and now_s < self._plan_at_s:
            return MOVING_LOOK_S
        self._changed = False
        alive = {name: one for name, one in live.items() if not self.detector.dead(one)}
        for name in sorted({*publication.owners().values()} - {*alive, ""}):
            # Another watch told of the absence; whether it was announced needs a fresh look.
            await state.leaving.refresh(leaving_path(name))
        leaving = [record for _, record in state.leaving.items()]
        candidates = self._roster.look(now_s, alive, leaving)
        if not alive:
            return LOOK_S  # nobody could serve: what is published stays as it is
        situation = Situation(
            now_s=now_s,
            candidates=candidates,
            partitions=publication.partitions(self._context.topics(), now_s),
            owners=publication.owners(),
            moved_from=moving,
            ring=state.ring.servers if state.ring else {},
            weights=self._weights(),
        )
        assignment = plan(situation, self._policy)
        began = (publication.takeovers, publication.planned_moves)
        await publication.publish(assignment)
        taken, planned = publication.takeovers - began[0], publication.planned_moves - began[1]
        if taken or planned:
            _log.info("%d partitions taken over, %d planned moves begun", taken, planned)
        for record in self._roster.outdated(now_s, leaving):
            await self._state.leaving.remove(leaving_path(record.name), record)
        self._plan_at_s = min(
            assignment.next_look_s,
            publication.next_look_s(now_s),
            self._roster.next_look_s(now_s),
        )
        if assignment.moved_from:
            return MOVING_LOOK_S
        return max(0.0, min(LOOK_S, self._plan_at_s - now_s))

    def _weights(self) -> Mapping[str, Nodes]:
        """What was asked for; a number that makes no sense counts as not asked for."""
        record = self._state.weights
        weights = {}
        for name, nodes in record.servers.items() if record is not None else ():
            try:
                weights[name] = by_sector(nodes) and nodes
            except (ValueError, TypeError) as error:
                _log.warning("the weight of %s is ignored: %s", name, error)
        return weights


def _is_of(leader: Leader, server: ServerRecord | None) -> bool:
    """Whether the record of a server is of the very process and session that leads."""
    return server is not None and (
        (leader.incarnation, leader.session) == (server.incarnation, server.session)
    )
