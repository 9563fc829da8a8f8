"""Clients of a classic group that act at random, and what of it breaks a promise."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from opentalos.group.kafka.classic import ClassicGroup
from opentalos.group.kafka.classic_member import Answer
from opentalos.group.kafka.values import (
    GroupState,
    JoinOutcome,
    JoinRequest,
    MemberId,
    Proposal,
    Refusal,
    SyncOutcome,
    SyncRequest,
)
from opentalos.model.settings.kafka import KafkaGroupLimits

PARTITIONS = 6
LIMITS = KafkaGroupLimits(members_max=8, initial_delay_s=1.0)


@dataclass(eq=False)
class Client:
    """A process; it keeps what it was told, also after others have taken its place."""

    instance: str | None
    member: str = ""
    generation: int = -1
    members: tuple[str, ...] = ()  # as the leader sees them
    waits: bool = False
    replaced: bool = False
    joins: bool = True  # it was told to
    sent: list[tuple[MemberId, int, frozenset[int]]] = field(default_factory=list)

    @property
    def who(self) -> MemberId:
        return MemberId(self.member, self.instance)


@dataclass
class World:
    """One group, its clients and the observer of both."""

    random: Random
    group: ClassicGroup
    now_s: float = 0.0
    clients: list[Client] = field(default_factory=list)
    waiting: dict[int, Client] = field(default_factory=dict)
    proposals: list[Proposal] = field(default_factory=list)
    decided: dict[int, dict[int, str]] = field(default_factory=dict)  # generation: partition: who
    told: dict[tuple[int, int], Client] = field(default_factory=dict)  # generation, partition
    last_told: dict[int, int] = field(default_factory=dict)  # partition: newest generation
    anomalies: set[str] = field(default_factory=set)
    stable_s: int = 0
    tickets: int = 0

    def run(self, steps: int) -> None:
        actions: list[Callable[[], None]] = [
            *[self.join] * 3,
            *[self.sync] * 8,
            *[self.grant] * 4,
            *[self.heartbeat] * 6,
            *[self.commit] * 4,
            self.leave,
            self.restart,
            *[self.wait] * 2,
        ]
        for _ in range(steps):
            self.random.choice(actions)()
            self.observe()

    # --- what clients do --------------------------------------------------------------------

    def ticket(self, client: Client) -> int:
        self.tickets += 1
        self.waiting[self.tickets] = client
        client.waits = True
        return self.tickets

    def some(self) -> Client | None:
        free = [client for client in self.clients if not client.waits]
        return self.random.choice(free) if free else None

    def join(self) -> None:
        if len(self.clients) < 5:
            instance = f"i{len(self.clients)}" if self.random.random() < 0.4 else None
            self.clients.append(Client(instance))
        client = self.some()
        if client is None or (client.replaced and client.member == ""):
            return
        if not client.joins and self.random.random() < 0.97:
            return
        request = JoinRequest(
            who=client.who,
            client_id="c",
            host="h",
            session_s=10.0,
            rebalance_s=20.0,
            protocol_type="consumer",
            protocols=(("range", b"m%d" % (self.random.random() < 0.1)),),
            fresh_id=f"m{self.tickets + 1}",
        )
        self.group.join(self.now_s, request, self.ticket(client))

    def sync(self) -> None:
        client = self.some()
        if client is None or client.generation < 0:
            return
        shares: dict[str, bytes] = {}
        for number in range(PARTITIONS if client.members else 0):
            name = client.members[(number + self.random.randint(0, 1)) % len(client.members)]
            shares[name] = shares.get(name, b"") + bytes([number])
        request = SyncRequest(who=client.who, generation=client.generation, assignments=shares)
        self.group.sync(self.now_s, request, self.ticket(client))

    def grant(self) -> None:
        if self.proposals:
            proposal = self.proposals.pop(self.random.randrange(len(self.proposals)))
            self.group.granted(self.now_s, proposal, done=self.random.random() < 0.9)

    def heartbeat(self) -> None:
        client = self.some()
        if client is None or not client.member:
            return
        refusal = self.group.heartbeat(self.now_s, client.who, client.generation)
        self.learn(client, refusal)

    def commit(self) -> None:
        """With what the client knows, or a request that arrives late."""
        client = self.some()
        if client is None or not client.sent:
            return
        latest = self.random.random() < 0.6
        who, generation, held = client.sent[-1] if latest else self.random.choice(client.sent)
        refusal = self.group.check_commit(self.now_s, who, generation)
        if refusal is None and any(self.last_told[number] > generation for number in held):
            self.anomalies.add("stale-commit")
        if refusal is None and client.replaced:
            self.anomalies.add("fenced-member-commits")
        if latest:
            self.learn(client, refusal)

    def learn(self, client: Client, refusal: Refusal | None) -> None:
        if client.replaced and refusal not in (
            Refusal.FENCED_INSTANCE_ID,
            Refusal.UNKNOWN_MEMBER_ID,
        ):
            self.anomalies.add("fenced-member-not-told")
        client.joins = client.joins or refusal is not None
        if refusal is Refusal.UNKNOWN_MEMBER_ID and self.random.random() < 0.7:
            client.member, client.generation = "", -1

    def leave(self) -> None:
        client = self.some()
        if client is not None and client.member and self.random.random() < 0.2:
            self.group.leave(self.now_s, [client.who])

    def restart(self) -> None:
        """A process with the same instance begins while the former one may go on."""
        client = self.some()
        if client is None or client.instance is None or self.random.random() < 0.5:
            return
        if not client.member or len(self.clients) > 8:
            return
        self.clients.append(Client(client.instance))

    def wait(self) -> None:
        self.now_s += self.random.choice([0.1, 0.5, 1.0, 2.0, 15.0])
        self.group.tick(self.now_s)

    # --- what is observed ---------------------------------------------------------------------

    def observe(self) -> None:
        events = self.group.take_events()
        if events.proposal is not None:
            self.proposals.append(events.proposal)
        for answer in events.answers:
            self.answered(answer)
        if self.group.state is GroupState.STABLE:
            self.stable_s += 1
        granting = bool(self.proposals)
        if self.waiting and not granting and self.group.deadline_s() == math.inf:
            self.anomalies.add("waits-for-ever")

    def answered(self, answer: Answer) -> None:
        client = self.waiting.pop(answer.ticket)
        client.waits = False
        outcome = answer.outcome
        if isinstance(outcome, JoinOutcome):
            self.joined(client, outcome)
        else:
            self.synced(client, outcome)

    def joined(self, client: Client, outcome: JoinOutcome) -> None:
        if outcome.refusal is Refusal.MEMBER_ID_REQUIRED:
            client.member = outcome.member
        if outcome.refusal is not None:
            if outcome.refusal is not Refusal.MEMBER_ID_REQUIRED:
                self.learn(client, outcome.refusal)
            return
        client.member, client.generation = outcome.member, outcome.generation
        client.joins = False
        leads = outcome.leader == outcome.member and not outcome.skip_assignment
        client.members = tuple(m.who.member for m in outcome.members) if leads else ()
        for other in self.clients:
            if other is not client and client.instance == other.instance is not None:
                other.replaced = other.replaced or other.member not in ("", client.member)

    def synced(self, client: Client, outcome: SyncOutcome) -> None:
        if outcome.refusal is not None:
            self.learn(client, outcome.refusal)
            return
        held = frozenset(outcome.assignment)
        client.sent.append((client.who, client.generation, held))
        for number in held:
            key = (client.generation, number)
            other = self.told.setdefault(key, client)
            if other is not client and not other.replaced:
                self.anomalies.add("two-owners")
            self.told[key] = client
            newest = max(self.last_told.get(number, -1), client.generation)
            self.last_told[number] = newest


def play(
    seed: int, make: Callable[[KafkaGroupLimits], ClassicGroup] = ClassicGroup, steps: int = 400
) -> World:
    """One history of the seed."""
    world = World(Random(seed), make(LIMITS))
    world.run(steps)
    return world
