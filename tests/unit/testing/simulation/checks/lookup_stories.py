"""Hand-made histories of lookups by time, also next to retention; see ``stories``."""

from tests.unit.testing.simulation.checks.stories import Story
from tests.unit.testing.simulation.checks.tale import Tale


def looked_up(tale: Tale, found: int, **later: int) -> None:
    tale.ok(tale.begin("lookup", time_ms=7, expected=1), offset=found, **later)


CASES: dict[str, tuple[list[Story], list[Story]]] = {
    "wrong-lookup": (
        [
            lambda tale: looked_up(tale, 0),
            lambda tale: looked_up(tale, 2, start=1),  # nothing of it was dropped
            lambda tale: looked_up(tale, 3, start=2),  # more was passed over than was dropped
        ],
        [lambda tale: looked_up(tale, 1), lambda tale: looked_up(tale, 2, start=2)],
    ),
}
