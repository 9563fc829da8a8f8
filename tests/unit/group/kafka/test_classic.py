from dataclasses import replace
from typing import Any

from opentalos.group.kafka.classic import ClassicGroup
from opentalos.group.kafka.classic_member import ProtocolNames
from opentalos.group.kafka.values import (
    PROTOCOLS_MAX,
    GroupState,
    JoinOutcome,
    JoinRequest,
    MemberId,
    Refusal,
    SyncOutcome,
    SyncRequest,
)
from opentalos.model.settings.kafka import KafkaGroupLimits

LIMITS = KafkaGroupLimits(initial_delay_s=3.0, members_max=3, metadata_bytes_max=1 << 10)


def join(member: str = "", **changes: Any) -> JoinRequest:
    values: dict[str, Any] = {
        "who": MemberId(member, changes.pop("instance", None)),
        "client_id": "c",
        "host": "10.0.0.1",
        "session_s": 10.0,
        "rebalance_s": 60.0,
        "protocol_type": "consumer",
        "protocols": (("range", b"r"), ("sticky", b"s")),
        "fresh_id": "fresh",
        "ids_required": False,
    }
    return JoinRequest(**{**values, **changes})


class Driver:
    """A group and the answers by ticket."""

    def __init__(self, limits: KafkaGroupLimits = LIMITS) -> None:
        self.group = ClassicGroup(limits)
        self.answers: dict[int, Any] = {}
        self.removed: list[str] = []
        self.tickets = 0

    def take(self, now_s: float, *, grants: bool = True) -> None:
        events = self.group.take_events()
        self.answers |= dict(events.answers)
        self.removed += events.removed
        if events.proposal is not None and grants:
            self.group.granted(now_s, events.proposal, done=True)
            self.take(now_s)

    def join(self, now_s: float, request: JoinRequest) -> int:
        self.tickets += 1
        self.group.join(now_s, request, self.tickets)
        self.take(now_s)
        return self.tickets

    def joined(self, ticket: int) -> JoinOutcome:
        outcome = self.answers[ticket]
        assert isinstance(outcome, JoinOutcome)
        return outcome

    def sync(self, now_s: float, member: str, generation: int, **shares: bytes) -> int:
        self.tickets += 1
        request = SyncRequest(who=MemberId(member), generation=generation, assignments=shares)
        self.group.sync(now_s, request, self.tickets)
        self.take(now_s)
        return self.tickets

    def synced(self, ticket: int) -> SyncOutcome:
        outcome = self.answers[ticket]
        assert isinstance(outcome, SyncOutcome)
        return outcome

    def tick(self, now_s: float) -> None:
        self.group.tick(now_s)
        self.take(now_s)

    def stable(self, *names: str, instance: str | None = None) -> None:
        """A stable group of generation 1 at 3 s whose members have their name as assignment."""
        for name in names:
            self.join(0.0, join(fresh_id=name, instance=instance and instance + name))
        self.tick(3.0)
        for name in reversed(names):
            self.sync(3.0, name, 1, **{each: each.encode() for each in names})
        assert self.group.state is GroupState.STABLE


def test_members_that_come_within_the_delay_are_one_generation() -> None:
    driver = Driver()
    first = driver.join(0.0, join(fresh_id="a"))
    second = driver.join(2.0, join(fresh_id="b", protocols=(("sticky", b"t"),)))
    driver.tick(4.9)
    assert driver.answers == {}
    driver.tick(5.0)
    led, followed = driver.joined(first), driver.joined(second)
    assert (led.generation, led.leader, led.protocol) == (1, "a", "sticky")
    assert [member.metadata for member in led.members] == [b"s", b"t"]
    assert (followed.generation, followed.leader, followed.members) == (1, "a", ())
    waiting = driver.sync(5.0, "b", 1)
    assert waiting not in driver.answers
    leader = driver.sync(5.0, "a", 1, a=b"1", b=b"2")
    assert driver.synced(leader).assignment == b"1"
    assert driver.synced(waiting).assignment == b"2"


def test_a_new_member_gets_its_id_first() -> None:
    driver = Driver()
    told = driver.joined(driver.join(0.0, join(ids_required=True)))
    assert (told.refusal, told.member) == (Refusal.MEMBER_ID_REQUIRED, "fresh")
    ticket = driver.join(0.0, join("fresh"))
    driver.tick(3.0)
    assert driver.joined(ticket).member == "fresh"
    assert driver.joined(driver.join(3.0, join("other"))).refusal is Refusal.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_join_again_in_time_is_dropped() -> None:
    driver = Driver()
    driver.stable("a", "b")
    late = driver.join(4.0, join(fresh_id="c"))
    assert driver.group.heartbeat(5.0, MemberId("a"), 1) is Refusal.REBALANCE_IN_PROGRESS
    driver.join(5.0, join("a"))
    for now_s in (10.0, 20.0, 30.0, 40.0, 50.0, 60.0):
        driver.group.heartbeat(now_s, MemberId("b"), 1)
        driver.tick(now_s)
    assert late not in driver.answers
    driver.tick(64.0)
    assert driver.joined(late).generation == 2
    assert driver.removed == ["b"]
    assert driver.group.heartbeat(64.0, MemberId("b"), 1) is Refusal.UNKNOWN_MEMBER_ID


def test_an_ended_session_starts_a_rebalance() -> None:
    driver = Driver()
    driver.stable("a", "b")
    assert driver.group.deadline_s() == 13.0
    assert driver.group.heartbeat(12.0, MemberId("a"), 1) is None
    driver.tick(13.0)
    assert driver.removed == ["b"]
    assert driver.group.describe().state is GroupState.PREPARING
    driver.tick(22.0)
    assert driver.removed == ["b", "a"]
    driver.tick(75.0)
    assert driver.group.describe().state is GroupState.EMPTY
    assert driver.group.idle


def test_a_static_member_returns_without_a_rebalance_and_the_former_is_fenced() -> None:
    driver = Driver()
    driver.stable("a", "b", instance="i-")
    back = driver.joined(driver.join(5.0, join(fresh_id="b2", instance="i-b")))
    assert (back.refusal, back.member, back.generation) == (None, "b2", 1)
    assert driver.removed == ["b"]
    assert driver.synced(driver.sync(5.0, "b2", 1)).assignment == b"b"
    former = MemberId("b", "i-b")
    assert driver.group.heartbeat(5.0, former, 1) is Refusal.FENCED_INSTANCE_ID
    assert driver.group.check_commit(5.0, former, 1) is Refusal.FENCED_INSTANCE_ID
    assert driver.group.heartbeat(5.0, MemberId("b"), 1) is Refusal.UNKNOWN_MEMBER_ID


def test_a_static_leader_that_returns_does_not_decide_anew() -> None:
    driver = Driver()
    driver.stable("a", "b", instance="i-")
    back = driver.joined(driver.join(5.0, join(fresh_id="a2", instance="i-a")))
    assert (back.leader, back.skip_assignment, len(back.members)) == ("a2", True, 2)
    old = driver.joined(driver.join(6.0, join(fresh_id="a3", instance="i-a", skips=False)))
    assert (old.leader, old.skip_assignment, old.members) == ("a2", False, ())


def test_a_static_member_may_be_absent_from_a_rebalance() -> None:
    driver = Driver()
    driver.stable("a", "b", instance="i-")
    led = driver.join(6.0, join("a", instance="i-a", protocols=(("range", b"n"),)))
    driver.group.heartbeat(60.0, MemberId("b", "i-b"), 1)
    driver.tick(66.0)
    assert driver.joined(led).generation == 2
    assert [member.who.member for member in driver.joined(led).members] == ["a", "b"]


def test_protocols_must_fit() -> None:
    driver = Driver()
    driver.stable("a")
    refusals = [
        driver.joined(driver.join(4.0, request)).refusal
        for request in (
            join(fresh_id="x", protocols=(("other", b""),)),
            join(fresh_id="x", protocol_type="connect"),
            join(fresh_id="x", protocols=()),
            join(fresh_id="x", session_s=1.0),
            join(fresh_id="x", protocols=(("range", bytes(2_000)),)),
        )
    ]
    assert refusals == [
        Refusal.INCONSISTENT_GROUP_PROTOCOL,
        Refusal.INCONSISTENT_GROUP_PROTOCOL,
        Refusal.INCONSISTENT_GROUP_PROTOCOL,
        Refusal.INVALID_SESSION_TIMEOUT,
        Refusal.INVALID_REQUEST,
    ]
    assert driver.group.state is GroupState.STABLE


def test_a_group_has_a_limit_of_members() -> None:
    driver = Driver()
    tickets = [driver.join(0.0, join(fresh_id=name)) for name in "abcd"]
    assert driver.joined(tickets[3]).refusal is Refusal.GROUP_MAX_SIZE_REACHED


class Name(str):
    """A protocol's name that counts how often it is looked up."""

    looked_up = 0

    def __hash__(self) -> int:
        Name.looked_up += 1
        return super().__hash__()


def test_a_join_costs_as_little_in_a_large_group() -> None:
    driver = Driver(replace(LIMITS, members_max=1_000, metadata_bytes_max=64 << 10))
    protocols = tuple((Name(f"p{number}"), b"") for number in range(PROTOCOLS_MAX))
    for member in range(50):
        driver.join(0.0, join(fresh_id=f"m{member}", protocols=protocols))
    Name.looked_up = 0
    ticket = driver.join(0.0, join("unknown", protocols=protocols))
    assert driver.joined(ticket).refusal is Refusal.UNKNOWN_MEMBER_ID
    assert Name.looked_up <= 4 * PROTOCOLS_MAX


def test_members_have_a_protocol_in_common_whatever_they_had_before() -> None:
    driver = Driver()
    driver.stable("a", "b")
    driver.join(4.0, join("a", protocols=(("new", b""), ("range", b""))))
    alone = driver.join(4.0, join("b", protocols=(("new", b""),)))
    assert driver.joined(alone).protocol == "new"
    strange = driver.join(5.0, join(fresh_id="c", protocols=(("range", b""),)))
    assert driver.joined(strange).refusal is Refusal.INCONSISTENT_GROUP_PROTOCOL
    driver.group.leave(6.0, [MemberId("b")])
    fits = driver.join(6.0, join(fresh_id="c", protocols=(("range", b""),)))
    assert fits not in driver.answers, "it waits for the next generation"


def test_names_of_protocols_that_nobody_has_are_forgotten() -> None:
    names = ProtocolNames()
    for number in range(100):
        names.add({f"p{number}": b"x"})
        names.remove({f"p{number}": b"x"})
    assert names.of_all(0) == frozenset()
    assert not names.fit([("p1", b"")], (), 1)


def test_what_could_not_be_granted_is_decided_again() -> None:
    driver = Driver()
    ticket = driver.join(0.0, join(fresh_id="a"))
    driver.tick(3.0)
    assert driver.joined(ticket).generation == 1
    driver.group.sync(3.0, SyncRequest(who=MemberId("a"), generation=1), 99)
    proposal = driver.group.take_events().proposal
    assert proposal is not None
    driver.group.granted(4.0, proposal, done=False)
    driver.take(4.0)
    assert driver.synced(99).refusal is Refusal.COORDINATOR_NOT_AVAILABLE
    again = driver.join(4.0, join("a"))
    assert driver.joined(again).generation == 2


def test_leaving_answers_each_member() -> None:
    driver = Driver()
    driver.stable("a", "b", instance="i-")
    leaving = [MemberId("", "i-a"), MemberId("x"), MemberId("a", "i-b"), MemberId("", "i-x")]
    assert driver.group.leave(4.0, leaving) == [
        None,
        Refusal.UNKNOWN_MEMBER_ID,
        Refusal.FENCED_INSTANCE_ID,
        Refusal.UNKNOWN_MEMBER_ID,
    ]
    driver.take(4.0)
    assert driver.removed == ["a"]


def test_commits_follow_the_generation() -> None:
    driver = Driver()
    driver.stable("a", "b")
    check = driver.group.check_commit
    assert check(4.0, MemberId("a"), 1) is None
    assert check(4.0, MemberId("a"), 0) is Refusal.ILLEGAL_GENERATION
    assert check(4.0, MemberId("x"), 1) is Refusal.UNKNOWN_MEMBER_ID
    driver.join(5.0, join("a"))  # the leader: a rebalance begins, and its commits still count
    assert check(5.0, MemberId("b"), 1) is None
    driver.join(6.0, join("b"))
    assert check(6.0, MemberId("b"), 1) is Refusal.ILLEGAL_GENERATION
    assert check(6.0, MemberId("b"), 2) is Refusal.REBALANCE_IN_PROGRESS


def test_a_member_that_never_asks_for_its_assignment_is_dropped() -> None:
    driver = Driver()
    driver.join(0.0, join(fresh_id="a"))
    driver.join(0.0, join(fresh_id="b", session_s=100.0))
    driver.tick(3.0)
    driver.sync(3.0, "a", 1, a=b"1", b=b"2")
    for now_s in range(5, 63, 5):
        driver.group.heartbeat(now_s, MemberId("a"), 1)
        driver.group.heartbeat(now_s, MemberId("b"), 1)
        driver.tick(now_s)
    driver.tick(63.0)
    assert driver.removed == ["b"]
