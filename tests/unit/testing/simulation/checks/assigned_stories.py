"""Hand-made histories of members whose coordinator assigns partitions; see ``stories``."""

from collections.abc import Sequence

from tests.unit.testing.simulation.checks.stories import Story
from tests.unit.testing.simulation.checks.tale import Tale

JOINS, LEAVES = 0, -1


def beat(
    tale: Tale,
    member: str,
    epoch: int,
    given: Sequence[int] | None = None,
    *,
    owned: Sequence[int] | None = None,
    now: int | None = None,
    by: str = "s1",
) -> None:
    """A heartbeat that is answered with the epoch ``now``."""
    begun = tale.begin("assigned-beat", member, group="g", epoch=epoch, owned=owned)
    assignment = None if given is None else list(given)
    tale.ok(begun, by=by, epoch=epoch if now is None else now, assignment=assignment)


def unheard(tale: Tale, member: str, epoch: int) -> None:
    begun = tale.begin("assigned-beat", member, group="g", epoch=epoch, owned=None)
    tale.recorder.unknown(begun, "ServerLost")


def commit(tale: Tale, member: str, epoch: int, offset: int = 0, by: str = "s1") -> None:
    begun = tale.begin("assigned-commit", member, group="g", epoch=epoch, offset=offset)
    tale.ok(begun, by=by)


def found(tale: Tale, *offsets: int) -> None:
    begun = tale.begin("assigned-positions", "reader", group="g")
    tale.ok(begun, offsets=[list(pair) for pair in enumerate(offsets)])


# --- who has a partition --------------------------------------------------------------------------


def given_before_it_is_given_back(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    beat(tale, "b", JOINS, [0], now=6)
    beat(tale, "a", 5, owned=[0])


def given_once_it_was_given_back(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    beat(tale, "b", JOINS, [], now=6)
    beat(tale, "a", 5, [], owned=[0])
    beat(tale, "a", 5, [], owned=[], now=6)
    beat(tale, "b", 6, [0])
    beat(tale, "a", 6)


def given_after_a_session(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    beat(tale, "b", JOINS, [0], now=6)
    tale.refuse("assigned-beat", "UNKNOWN_MEMBER_ID", process="a", group="g", epoch=5, owned=None)
    beat(tale, "a", JOINS, [], now=7, owned=[])


def given_by_the_next_coordinator(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    beat(tale, "b", JOINS, [0], now=9, by="s2")
    beat(tale, "a", 5, owned=[0])


def perhaps_left(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    unheard(tale, "a", LEAVES)
    beat(tale, "a", JOINS, [0], now=6)
    beat(tale, "b", JOINS, [0], now=7)
    beat(tale, "a", 6)


# --- who commits ----------------------------------------------------------------------------------


def committed_in_a_former_epoch(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    beat(tale, "a", 5, now=6)
    commit(tale, "a", 5)


def committed_without_joining(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5, by="s1")
    commit(tale, "a", 5, by="s2")


def committed_in_turn(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    beat(tale, "b", JOINS, [0], now=9, by="s2")
    commit(tale, "b", 9, by="s2")
    commit(tale, "a", 5)


def committed_while_the_epoch_changed(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    begun = tale.begin("assigned-commit", "a", group="g", epoch=5, offset=1)
    beat(tale, "a", 5, now=6)
    tale.ok(begun, by="s1")
    commit(tale, "a", 6)


def perhaps_in_another_epoch(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    unheard(tale, "a", 5)
    commit(tale, "a", 6)


def committed_in_turn_with_grants(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    commit(tale, "a", 5)
    beat(tale, "b", JOINS, [0], now=9, by="s2")
    commit(tale, "b", 9, by="s2")
    beat(tale, "a", JOINS, [0], now=10, by="s2")
    commit(tale, "a", 10, by="s2")


# --- what was committed ---------------------------------------------------------------------------


def moved_back_by_a_late_commit(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    late = tale.begin("assigned-commit", "a", group="g", epoch=5, offset=4)
    beat(tale, "b", JOINS, [0], now=9, by="s2")
    commit(tale, "b", 9, 8, by="s2")
    tale.ok(late, by="s1")
    found(tale, 4)


def never_committed(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    commit(tale, "a", 5, 4)
    found(tale, 5)


def forgotten(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    commit(tale, "a", 5, 4)
    found(tale)


def the_later_commit_stays(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    late = tale.begin("assigned-commit", "a", group="g", epoch=5, offset=4)
    beat(tale, "b", JOINS, [0], now=9, by="s2")
    commit(tale, "b", 9, 8, by="s2")
    tale.ok(late, by="s1")
    found(tale, 8)


def either_of_two_at_once(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    late = tale.begin("assigned-commit", "a", group="g", epoch=5, offset=4)
    commit(tale, "a", 5, 8)
    tale.ok(late, by="s1")
    found(tale, 4)


def nothing_yet(tale: Tale) -> None:
    beat(tale, "a", JOINS, [0], now=5)
    found(tale)
    tale.recorder.unknown(
        tale.begin("assigned-commit", "a", group="g", epoch=5, offset=4), "ServerLost"
    )
    found(tale)
    found(tale, 4)


CASES: dict[str, tuple[list[Story], list[Story]]] = {
    "assigned-twice": (
        [given_before_it_is_given_back],
        [
            given_once_it_was_given_back,
            given_after_a_session,
            given_by_the_next_coordinator,
            perhaps_left,
        ],
    ),
}
HAVING: list[tuple[str, Story]] = [
    ("stale-commit", committed_in_a_former_epoch),
    ("stale-commit", committed_without_joining),
    ("stale-commit", committed_in_turn),
    ("lost-checkpoint", moved_back_by_a_late_commit),
    ("lost-checkpoint", never_committed),
    ("lost-checkpoint", forgotten),
]
FREE: list[tuple[str, Story]] = [
    ("stale-commit", committed_while_the_epoch_changed),
    ("stale-commit", perhaps_in_another_epoch),
    ("stale-commit", committed_in_turn_with_grants),
    ("lost-checkpoint", the_later_commit_stays),
    ("lost-checkpoint", either_of_two_at_once),
    ("lost-checkpoint", nothing_yet),
]
