"""Hand-made histories of clusters; see ``stories``."""

from tests.unit.testing.simulation.checks.stories import Story, acked_and_expired
from tests.unit.testing.simulation.checks.tale import Tale


def restarted(tale: Tale, *, down_s: float, drained: bool = False, steady: bool = True) -> None:
    """Server a announces a restart and its partition goes to b while it is away."""
    tale.note("registered", servers=["a", "b"])
    tale.tick(9.0 if steady else 1.0)
    tale.note("assigned", topic="u", owners=["a", "b"])
    if drained:
        tale.note("drain", host="a")
    tale.note("stopping", host="a")
    tale.note("announced", host="a", wait_s=20.0)
    tale.note("assigned", topic="u", owners=["b", "b"])
    tale.tick(down_s)
    tale.note("registered", servers=["a", "b"])


def restarted_and_nothing_moved(tale: Tale) -> None:
    tale.note("registered", servers=["a", "b"])
    tale.tick(9.0)
    tale.note("assigned", topic="u", owners=["a", "b"])
    tale.note("announced", host="a", wait_s=20.0)
    tale.note("assigned", topic="u", owners=["a", "a"])
    tale.note("registered", servers=["a", "b"])
    tale.note("assigned", topic="u", owners=["b", "b"])


def planned_before_the_announcement(tale: Tale, *, after_s: float) -> None:
    """A planned move from a, published while a announces its restart."""
    tale.note("registered", servers=["a", "b"])
    tale.tick(9.0)
    tale.note("assigned", topic="u", owners=["a", "b"], planned=[])
    tale.note("announced", host="a", wait_s=20.0)
    tale.tick(after_s)
    tale.note("assigned", topic="u", owners=["b", "b"], planned=[0])
    tale.tick(5)
    tale.note("registered", servers=["a", "b"])


def lent(
    tale: Tale, *, away: list[str], back: list[str], down_s: float = 5, disturbed: bool = False
) -> None:
    """Server a lends its partition and returns. Owners while it is ``away``, and when ``back``."""
    tale.note("registered", servers=["a", "b", "c"])
    tale.note("assigned", topic="u", owners=["a", "b", "c"])
    tale.tick(9.0)
    tale.note("stopping", host="a")
    began_s = tale.now_s
    tale.note("assigned", topic="u", owners=away)
    tale.note("lends", host="a", began_s=began_s, wait_s=20.0)
    tale.tick(2.0)
    if disturbed:
        tale.note("process-crash", host="b")
    tale.tick(down_s)
    tale.note("started", host="a")
    tale.note("assigned", topic="u", owners=back)
    tale.tick(9.0)


def asked(tale: Tale, *answers: tuple[str, int, str]) -> None:
    """Who leads partition 0, one question after the other: host that answers, epoch, leader."""
    for host, epoch, leader in answers:
        tale.ok(tale.begin("leaders"), by=host, epoch=epoch, leaders=[leader])


def asked_at_the_same_time(tale: Tale) -> None:
    earlier, later = tale.begin("leaders"), tale.begin("leaders")
    tale.ok(later, by="a", epoch=6, leaders=["b"])
    tale.ok(earlier, by="a", epoch=5, leaders=["a"])


def answered(tale: Tale, host: str, epoch: int) -> None:
    """A read by a host, after partition 0 moved from a to b in epoch 6, and back in epoch 8."""
    for number, owner in ((5, "a"), (6, "b"), (8, "a")):
        tale.note("assigned", topic="u", number=number, owners=[owner])
    tale.ok(tale.begin("read", topic="o#t#u", offset=0, epoch=epoch), by=host, blocks=[])


def commit_after_an_unlock_that_came_late(tale: Tale) -> None:
    """It was sent before its worker locked again, and reached the coordinator behind that."""
    tale.put("a", "b")
    tale.lease("lock", "w1")
    unlock = tale.begin("unlock", process="w1", worker="w1")
    tale.tick()
    tale.recorder.unknown(unlock, "no answer")
    for action, worker in (("lock", "w1"), ("lock", "w2")):
        tale.lease(action, worker)
    tale.lease("commit", "w2", offset=1)


CASES: dict[str, tuple[list[Story], list[Story]]] = {
    "never-rebalanced": ([lambda tale: tale.note("never-rebalanced")], [acked_and_expired]),
    "two-leaders": (
        [
            lambda tale: asked(tale, ("a", 5, "a"), ("b", 5, "b")),
            lambda tale: asked(tale, ("a", 6, "b"), ("a", 5, "a")),
        ],
        [
            lambda tale: asked(tale, ("a", 5, "a"), ("b", 6, "b"), ("a", 5, "a"), ("a", 6, "b")),
            lambda tale: asked(tale, ("a", 5, "a"), ("b", 5, "")),  # a is not registered any more
            lambda tale: asked(tale, ("a", 5, "a"), ("a", -1, "")),
            asked_at_the_same_time,
        ],
    ),
    "former-leader": (
        [lambda tale: answered(tale, "c", 5), lambda tale: answered(tale, "b", 8)],
        [
            lambda tale: answered(tale, "a", 5),
            lambda tale: answered(tale, "b", 5),  # in an older epoch than its own
            lambda tale: answered(tale, "a", 6),
            lambda tale: answered(tale, "b", 7),  # of a record that was not seen
        ],
    ),
    "moved-for-announced-restart": (
        [
            lambda tale: restarted(tale, down_s=5),
            lambda tale: planned_before_the_announcement(tale, after_s=2.0),
        ],
        [
            restarted_and_nothing_moved,
            lambda tale: planned_before_the_announcement(tale, after_s=0.3),
            lambda tale: restarted(tale, down_s=30),
            lambda tale: restarted(tale, down_s=5, drained=True),
            lambda tale: restarted(tale, down_s=5, steady=False),
        ],
    ),
    "not-lent": (
        [lambda tale: lent(tale, away=["a", "b", "c"], back=["a", "b", "c"])],
        [lambda tale: lent(tale, away=["b", "b", "c"], back=["a", "b", "c"])],
    ),
    "not-taken-back": (
        [lambda tale: lent(tale, away=["b", "b", "c"], back=["b", "b", "c"])],
        [
            lambda tale: lent(tale, away=["b", "b", "c"], back=["b", "b", "c"], down_s=30),
            lambda tale: lent(tale, away=["b", "b", "c"], back=["c", "c", "c"], disturbed=True),
        ],
    ),
    "moved-by-lending": (
        [lambda tale: lent(tale, away=["b", "b", "c"], back=["a", "c", "c"])],
        [lambda tale: lent(tale, away=["c", "b", "c"], back=["a", "b", "c"])],
    ),
    "crowded-topic": ([lambda tale: tale.note("crowded-topic")], [acked_and_expired]),
    "stale-schedule": ([lambda tale: tale.note("stale-schedule")], [acked_and_expired]),
    "forward-loop": ([lambda tale: tale.note("forward-loop")], [acked_and_expired]),
}
