"""Hand-made histories of egress; see ``stories``."""

from tests.unit.testing.simulation.checks.stories import Story
from tests.unit.testing.simulation.checks.tale import Tale


def read(tale: Tale, count: int, reader: str = "alice") -> None:
    tale.note("read", topic="t", reader=reader, bytes=count)


def event(
    tale: Tale, number: int, count: int, *, source: str = "s1/a", reader: str = "alice"
) -> None:
    tale.note(
        "egress-event",
        topic="t",
        reader=reader,
        minute_ms=0,
        source=source,
        number=number,
        messages=1,
        bytes=count,
    )


def each_read_once(tale: Tale) -> None:
    """Written again after a put of unknown outcome."""
    read(tale, 3)
    read(tale, 4)
    for _ in range(2):
        event(tale, 0, 3)
        event(tale, 0, 4, source="s1/b")


def lost_by_a_kill(tale: Tale) -> None:
    read(tale, 3)
    read(tale, 4)
    event(tale, 0, 3)


def read_reported_twice(tale: Tale) -> None:
    read(tale, 3)
    event(tale, 0, 3)
    event(tale, 1, 3)


def reported_for_another_reader(tale: Tale) -> None:
    read(tale, 3)
    event(tale, 0, 3, reader="bob")


def two_contents_of_one_number(tale: Tale) -> None:
    read(tale, 7)
    event(tale, 0, 3)
    event(tale, 0, 4)


CASES: dict[str, tuple[list[Story], list[Story]]] = {
    "egress-drift": (
        [read_reported_twice, reported_for_another_reader, two_contents_of_one_number],
        [each_read_once, lost_by_a_kill],
    )
}
