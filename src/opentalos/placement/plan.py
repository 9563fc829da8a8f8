"""plan: the next assignment, from the candidates and the current assignment. Pure, deterministic.

The controller calls it whenever members, weights or topics change. An assignment never gives the
right to write (promise I2).
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import chain
from typing import NamedTuple

from opentalos.model.message import PartitionKey
from opentalos.placement.lending import Loans
from opentalos.placement.ring import Ring
from opentalos.placement.spread import Spread
from opentalos.placement.steps import Pace, Steps, finished
from opentalos.placement.targets import Takers, Targets, changed_homes, fair
from opentalos.placement.values import Assignment, Candidate, Nodes, Policy, Situation

NEVER_S = float("inf")


class _Servers(NamedTuple):
    """``ring``: members of the ring. ``keep``: may keep partitions. ``take``: may get more."""

    ring: Sequence[str]
    keep: Set[str]
    take: Set[str]


def plan(situation: Situation, policy: Policy) -> Assignment:
    """The next assignment, at once."""
    return finished(planning(situation, policy))


def planning(situation: Situation, policy: Policy) -> Steps[Assignment]:
    """The next assignment, in steps of some milliseconds.

    With no server alive or reserved, no partition has an owner.
    A partition stays where it is unless its server is gone (it moves at once), or is to be emptied,
    or has too many of the topic, or the ring changed in its favour (then it moves when fewer than
    ``moves_at_once`` are under way). So a crash moves only what the dead server had, a join only
    what fills the new server, and a restart in time moves nothing, or lends what it has.
    """
    pace = Pace()
    # While moves of a join wait, the published ring does not have the joining server yet.
    known = {*situation.ring, *situation.owners.values(), *situation.lent.values()}
    servers = _sort_servers(situation, policy, known)
    next_look_s = _next_look_s(situation, policy, known)
    if not servers.ring:
        owners = dict.fromkeys(situation.partitions, "")
        return Assignment(owners, {}, next_look_s=next_look_s)
    nodes = {name: _nodes(name, situation, policy) for name in situation.candidates}
    ring = {name: nodes[name] for name in servers.ring}
    # What is published is the ring that the partitions follow already. Until all moves that its
    # change asks for have begun, the former one stays, so that the next plan knows them again.
    former = {name: own for name, own in situation.ring.items() if name in ring} or ring
    loans = Loans(situation, set(servers.ring), servers.take)
    targets = yield from _targets(situation, servers, former, nodes, pace)
    owners = yield from _place(situation, servers, targets, loans, pace)
    moving = dict(_still_moving(situation, owners))
    wishes, at_rest = {}, []
    for key, owner in owners.items():
        if pace.due():
            yield
        if not situation.candidates[owner].alive or situation.owners.get(key) != owner:
            continue  # there is nobody to hand it over
        goal = loans.goal(key, owner, partial(targets.host, key))
        if goal != owner:
            wishes[key] = goal
            if pace.due(len(ring)):
                yield
        elif key not in loans:
            at_rest.append(key)
    homes = yield from changed_homes(situation.partitions, former, ring, pace)
    leaving = servers.keep - ring.keys() - servers.take  # who may take is the best there is
    wishes.update((yield from targets.moves(at_rest, leaving, homes)))
    # What leaves a server goes first: an operator or its own stop waits for it to be empty.
    urgent: list[list[PartitionKey]] = [[], [], [], []]
    for key in wishes:
        stays, own = not situation.leaves(owners[key]), key not in loans
        urgent[2 * stays + own].append(key)
        if pace.due():
            yield
    waiting = 0
    for key in chain.from_iterable(urgent):
        if pace.due():
            yield
        if key in moving or len(moving) >= policy.moves_at_once:
            waiting += 1
            continue
        moving[key] = owners[key]
        loans.left(key, owners[key])
        owners[key] = wishes[key]
    published = former if waiting else ring
    return Assignment(owners, published, moving, waiting, next_look_s, loans.of(owners))


def _targets(
    situation: Situation,
    servers: _Servers,
    former: Mapping[str, Nodes],
    nodes: Mapping[str, Nodes],
    pace: Pace,
) -> Steps[Targets]:
    ring = {name: nodes[name] for name in servers.ring}
    takers = {name: nodes[name] for name in sorted(servers.take)} or ring
    joining = [name for name in takers if name not in former and name not in situation.weights]
    everyone = {**takers, **ring}
    fair_of_all = fair(len(situation.partitions), everyone)
    taking = yield from Ring.building(takers, pace)
    return Targets(
        Takers(ring=taking, names=takers.keys(), fair=fair_of_all, joining=joining),
        Spread(situation.partitions, everyone),
        pace,
    )


def _place(
    situation: Situation, servers: _Servers, targets: Targets, loans: Loans, pace: Pace
) -> Steps[dict[PartitionKey, str]]:
    """Who serves each partition before moves. One that is lent keeps its place at its lender."""
    owners, homeless = {}, []
    for key in situation.partitions:
        if pace.due():
            yield
        owner = owners[key] = situation.owners.get(key, "")
        gone = owner not in servers.keep
        if gone:
            loans.left(key, owner)
        if key in loans:
            targets.keep(key, loans.lender(key))
        if not gone and key in loans:
            targets.lodge(key, owner)
        elif not gone:
            targets.keep(key, owner)
        else:
            homeless.append(key)
    for key in homeless:
        if pace.due(8):  # a few of a hundred servers are passed over
            yield
        if key in loans:
            owners[key] = targets.host(key)
        else:
            owners[key] = targets.place(key)
    return owners


def _sort_servers(situation: Situation, policy: Policy, known: Set[str]) -> _Servers:
    """``known``: servers that take part already, which need not be stable again."""
    candidates = situation.candidates.values()
    alive = [server for server in candidates if server.alive]
    ready = [server for server in alive if not situation.leaves(server.name)]
    settled = [server.name for server in ready if _settled(server, situation, policy, known)]
    reserved = [server.name for server in candidates if _reserved(server, situation)]
    # A server that is not yet stable, or is draining, serves if there is no other.
    take = settled or [server.name for server in ready or alive]
    lending = [server.name for server in alive if server.lending]
    placed = [name for name in (*reserved, *lending) if name in known]
    # Whoever lends keeps nothing while it is away, unless there is nobody to lend to.
    waits = {name for name in reserved if not take or not situation.candidates[name].lending}
    return _Servers(
        ring=sorted({*settled, *placed}) or sorted(take) or sorted(reserved),
        keep={*waits, *(server.name for server in alive)},
        take=set(take),
    )


def _settled(candidate: Candidate, situation: Situation, policy: Policy, known: Set[str]) -> bool:
    stable_s = candidate.since_s + policy.stable_after_s
    return candidate.name in known or situation.now_s >= stable_s


def _reserved(candidate: Candidate, situation: Situation) -> bool:
    return not candidate.alive and situation.now_s < candidate.reserved_until_s


def _nodes(name: str, situation: Situation, policy: Policy) -> Nodes:
    return situation.weights.get(name, policy.virtual_nodes)


def _still_moving(
    situation: Situation, owners: Mapping[PartitionKey, str]
) -> Iterator[tuple[PartitionKey, str]]:
    """Moves under way whose new owner is the same and whose former one can still seal."""
    for key, source in situation.moved_from.items():
        former = situation.candidates.get(source)
        same = key in owners and owners[key] == situation.owners.get(key) != source
        if same and former is not None and former.alive:
            yield key, source


def _next_look_s(situation: Situation, policy: Policy, known: Set[str]) -> float:
    times_s = [NEVER_S]
    for server in situation.candidates.values():
        if server.alive and not _settled(server, situation, policy, known):
            times_s.append(server.since_s + policy.stable_after_s)
        elif _reserved(server, situation):
            times_s.append(server.reserved_until_s)
    return min(times_s)
