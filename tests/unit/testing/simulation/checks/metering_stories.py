"""Hand-made histories of metering; see ``stories``."""

from tests.unit.testing.simulation.checks.stories import Story
from tests.unit.testing.simulation.checks.tale import Tale

UNIT_MS = 10
BLOCKS = [[0, 2, 3, 5], [2, 1, 9, 7], [3, 4, 11, 8]]  # two minutes: 0 to 3, and 3 to 7


def stored(tale: Tale, *, sure: bool = True, blocks: list[list[int]] | None = None) -> None:
    stored = BLOCKS if blocks is None else blocks
    tale.note("stored-blocks", topic="t", partition=0, minute_ms=UNIT_MS, blocks=stored, sure=sure)


def event(tale: Tale, first: int, following: int, minute_ms: int, count_bytes: int) -> None:
    tale.note(
        "usage-event",
        topic="t",
        partition=0,
        minute_ms=minute_ms,
        bytes=count_bytes,
        first_offset=first,
        next_offset=following,
    )


def exact(tale: Tale) -> None:
    """Reported in parts, repeatedly and out of order; the larger next offset wins."""
    event(tale, 0, 2, 0, 5)
    event(tale, 3, 7, 10, 8)
    event(tale, 0, 3, 0, 12)
    event(tale, 0, 2, 0, 5)
    stored(tale)


def nothing_reported(tale: Tale) -> None:
    stored(tale)


def end_not_reported(tale: Tale) -> None:
    event(tale, 0, 3, 0, 12)
    stored(tale)


def minute_short(tale: Tale) -> None:
    event(tale, 0, 2, 0, 5)
    event(tale, 3, 7, 10, 8)
    stored(tale)


def half_of_a_minute_for_the_whole(tale: Tale) -> None:
    event(tale, 0, 2, 0, 5)
    event(tale, 2, 3, 0, 7)
    event(tale, 3, 7, 10, 8)
    stored(tale)


def other_bytes(tale: Tale) -> None:
    event(tale, 0, 3, 0, 13)
    event(tale, 3, 7, 10, 8)
    stored(tale)


def more_than_ever_was(tale: Tale) -> None:
    exact(tale)
    event(tale, 7, 9, 20, 1)


def wrong_minute(tale: Tale) -> None:
    event(tale, 0, 3, 0, 12)
    event(tale, 3, 7, 20, 8)
    stored(tale)


def more_than_a_deleted_topic_had(tale: Tale) -> None:
    tale.ok(tale.begin("delete"))
    event(tale, 0, 3, 0, 12)
    event(tale, 3, 9, 10, 8)
    stored(tale)


def end_of_a_deleted_topic_not_reported(tale: Tale) -> None:
    tale.ok(tale.begin("delete"))
    event(tale, 0, 2, 0, 5)
    stored(tale)


def end_that_no_server_had_not_reported(tale: Tale) -> None:
    event(tale, 0, 3, 0, 12)
    stored(tale, sure=False)


def lost_by_power(tale: Tale) -> None:
    tale.note("topic", topic="t", durability="flushed")
    tale.note("power-loss")
    event(tale, 0, 9, 0, 99)
    stored(tale)


def restarted_after_a_deletion(tale: Tale) -> None:
    """The rival of the server that deleted still knew the topic."""
    tale.note("usurped", server="s1", by="s2")
    tale.ok(tale.begin("delete", server="s2"))
    event(tale, 0, 9, 30, 99)
    stored(tale)


def restarted_without_a_rival(tale: Tale) -> None:
    tale.ok(tale.begin("delete", server="s2"))
    event(tale, 0, 9, 30, 99)
    stored(tale)


def restarted_though_the_deletion_was_refused(tale: Tale) -> None:
    tale.note("usurped", server="s1", by="s2")
    tale.refuse("delete", "Unavailable", server="s2")
    event(tale, 0, 9, 30, 99)
    stored(tale)


CASES: dict[str, tuple[list[Story], list[Story]]] = {
    "meter-drift": (
        [
            nothing_reported,
            end_not_reported,
            minute_short,
            half_of_a_minute_for_the_whole,
            other_bytes,
            more_than_ever_was,
            wrong_minute,
            more_than_a_deleted_topic_had,
            restarted_without_a_rival,
            restarted_though_the_deletion_was_refused,
        ],
        [
            exact,
            end_of_a_deleted_topic_not_reported,
            end_that_no_server_had_not_reported,
            lost_by_power,
            restarted_after_a_deletion,
        ],
    ),
}
