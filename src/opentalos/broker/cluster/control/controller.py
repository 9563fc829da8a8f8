"""Controller: the elected server plans which server serves which partition, and publishes it.

It runs on every member; ``Cluster`` starts it and wakes it. An assignment never gives the right to
write, which only the manifest does (promise I2), so a controller that does not know yet that it was
replaced can only cause moves.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from opentalos.broker.cluster.control.computation import worked_out
from opentalos.broker.cluster.control.failure_detector import FailureDetector
from opentalos.broker.cluster.control.publication import Publication
from opentalos.broker.cluster.control.roster import Roster
from opentalos.broker.cluster.ownership_guard import handover_max_s
from opentalos.broker.cluster.records import LEADER, Leader, ServerRecord, encode_record
from opentalos.broker.cluster.state import ClusterState, leaving_path, server_path
from opentalos.model.errors import AlreadyExists, TalosError
from opentalos.model.limits import ClusterLimits
from opentalos.model.message import PartitionKey
from opentalos.placement.plan import planning
from opentalos.placement.ring import by_sector
from opentalos.placement.values import Nodes, Policy, Situation
from opentalos.ports.clock import Clock
from opentalos.ports.meta_store import Session
from opentalos.ports.peers import Peers

_log = logging.getLogger("opentalos.cluster")

INTERVAL_S = 1.0  # between two turns without a change
MOVING_INTERVAL_S = 0.1  # while planned moves are under way
RETRY_S = 0.25  # after a turn that failed
FAILED_S = 5.0  # after an unexpected failure: time for another server to lead
PACE_S = 0.02  # between two turns, so that simultaneous changes are planned together
RESIGN_S = 1.0
# After an outage of the coordination the sessions of all servers may have ended. They serve on, so
# nothing is taken over from one that is not back for this time, unless its port refuses.
RETURN_S = 6.0


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
    """Runs on every server; the elected one plans and publishes, the others monitor it.

    States: follower, leader (``leading``). A follower stands for election when no live leader
    exists: the first to create the ephemeral leader record wins. A leader remains one while its
    session is valid and the record is its own. Each turn of the loop does what is due: the leader
    probes the other servers, turns records into candidates, plans and publishes; a follower probes
    the leader. A turn that fails is repeated; after an unexpected failure the leader resigns.
    The leader checks its session before each write, and each write is a compare-and-set on what
    the plan was made from.

    ``wake`` (sync, cheap) is called whenever a control record or a topic changed.
    """

    def __init__(self, context: ControllerContext) -> None:
        self._context, self._state = context, context.state
        limits = context.limits
        # A new owner that waits less long claims the partition, which ends the move as well.
        self._handover_max_s = handover_max_s(limits.handover_s, journaled=True)
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
        self._return_s = 0.0  # until then those that were known are expected
        self._known: Mapping[str, ServerRecord] | None = None  # when coordination went away
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the loop; the state must have been started."""
        self._task = asyncio.create_task(self._run(), name="controller")

    async def close(self) -> None:
        """Stop, and resign so that another server leads at once."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        await self.detector.close()
        await self._resign()

    def wake(self) -> None:
        """Something changed: run a turn soon."""
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
                _log.info("the controller repeats its turn: %s", error)
                self._changed, wait_s = True, RETRY_S
            except Exception:
                # Without this loop the server would never stand for election again.
                _log.exception("the controller failed, resigning so that another server leads")
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
        """Do what is due; seconds until the next turn. Raises: TalosError: repeat soon."""
        if not self._steady(self._context.session()):
            self.detector.follow(())
            if self._known is None:
                # Those that did not return yet since the last interruption are still expected.
                self._known = {**self._state.expected(), **self._state.live()}
                self._state.expect(self._known, float("inf"))
            return RETRY_S
        if self._known is not None:
            now_s = asyncio.get_running_loop().time()
            self._state.expect(self._known, now_s + RETURN_S)
            self._known, self._return_s, self._changed = None, now_s + RETURN_S, True
        leader = self._state.leader
        if leader is None or not await self._is_there(leader):
            await self._stand()
        if self.leading:
            return await self._lead()
        return INTERVAL_S

    def _steady(self, session: Session) -> bool:
        now_s = asyncio.get_running_loop().time()
        return session.connected and not session.lost and now_s <= session.valid_until_s

    # --- election -------------------------------------------------------------------------------

    async def _is_there(self, leader: Leader) -> bool:
        """Whether the leader is alive; a record that outlived it is removed."""
        if leader == self._term and leader.session == self._context.session().incarnation:
            return True
        server = self._state.live().get(leader.name)
        if not _is_of(leader, server):
            # Leader and servers come by two watches: only a fresh read of both decides.
            await self._state.servers.refresh(server_path(leader.name))
            await self._state.control.refresh(LEADER)
            if self._state.leader != leader:
                return self._state.leader is not None
            server = self._state.live().get(leader.name)
        if server is not None and _is_of(leader, server) and leader.name != self._context.me.name:
            self.detector.follow([server])
            if not self.detector.dead(server):
                return True
        _log.warning("server %s is not the leader any more", leader.name)
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
            _log.info("server %s leads the cluster", me.name)
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
            _log.warning("could not resign, the leader record expires with the session: %s", error)

    # --- leading -------------------------------------------------------------------------------

    async def _lead(self) -> float:
        state, publication = self._state, self.publication
        now_s = asyncio.get_running_loop().time()
        live = state.live()
        expected = state.expected()
        self.detector.follow(
            record
            for name, record in (*expected.items(), *live.items())
            if name != self._context.me.name
        )
        self._roster.expect(
            {
                name: self._return_s
                for name, record in expected.items()
                if not self.detector.dead(record)
            }
        )
        published = publication.moved_from()
        if not self._changed and not published and now_s < self._plan_at_s:
            return min(INTERVAL_S, self._plan_at_s - now_s)
        moving = await publication.unfinished(now_s, self._handover_max_s)
        if not self._changed and moving == published and now_s < self._plan_at_s:
            return MOVING_INTERVAL_S
        self._changed = False
        lent = publication.lent()
        await self._refresh_absent({*publication.owners().values(), *lent.values()} - {""}, lent)
        alive = self._alive()
        leaving = [record for _, record in state.leaving.items()]
        candidates = self._roster.look(now_s, alive, leaving)
        if not alive:
            return INTERVAL_S  # no server could serve: the published assignments stay
        situation = Situation(
            now_s=now_s,
            candidates=candidates,
            partitions=publication.partitions(self._context.topics(), now_s),
            owners=publication.owners(),
            moved_from=moving,
            ring=state.ring.servers if state.ring else {},
            weights=self._weights(),
            lent=publication.lent(),  # read at the same time as the owners
        )
        basis = publication.basis()
        assignment = await worked_out(planning(situation, self._policy))
        if publication.basis() != basis:
            self._changed = True  # while a large plan was made
            return 0.0
        began = (publication.takeovers, publication.planned_moves)
        await publication.publish(assignment, basis)
        taken, planned = publication.takeovers - began[0], publication.planned_moves - began[1]
        if taken or planned:
            _log.info("partition failovers=%d planned_moves=%d", taken, planned)
        for record in self._roster.outdated(now_s, leaving):
            await self._state.leaving.remove(leaving_path(record.name), record)
        self._plan_at_s = min(
            assignment.next_look_s,
            publication.next_look_s(now_s),
            self._roster.next_look_s(now_s),
        )
        if assignment.moved_from:
            return MOVING_INTERVAL_S
        return max(0.0, min(INTERVAL_S, self._plan_at_s - now_s))

    def _alive(self) -> Mapping[str, ServerRecord]:
        live = self._state.live()
        return {name: server for name, server in live.items() if not self.detector.dead(server)}

    async def _refresh_absent(self, names: Set[str], lent: Mapping[PartitionKey, str]) -> None:
        """An absence came by another watch; whether it was announced needs a fresh read."""
        lenders = {*lent.values()}
        for name in sorted(names - self._alive().keys()):
            await self._state.leaving.refresh(leaving_path(name))
            if name in lenders:  # it may be back, which is seen after its announcement went
                await self._state.servers.refresh(server_path(name))

    def _weights(self) -> Mapping[str, Nodes]:
        """The configured weights; an invalid one is ignored."""
        record = self._state.weights
        weights = {}
        for name, nodes in record.servers.items() if record is not None else ():
            try:
                weights[name] = by_sector(nodes) and nodes
            except (ValueError, TypeError) as error:
                _log.warning("ignoring the weight of server %s: %s", name, error)
        return weights


def _is_of(leader: Leader, server: ServerRecord | None) -> bool:
    """Whether the record of a server is of the very process and session that leads."""
    return server is not None and (
        (leader.incarnation, leader.session) == (server.incarnation, server.session)
    )
