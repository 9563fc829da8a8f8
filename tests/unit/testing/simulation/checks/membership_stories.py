"""Hand-made histories of workers that leave their group; see ``stories``."""

from typing import Any

from tests.unit.testing.simulation.checks.stories import Story
from tests.unit.testing.simulation.checks.tale import Tale


def call(tale: Tale, action: str, worker: str, **args: Any) -> None:
    begun = {"group": "g", "server": "s1", "partitions": (0,), **args}
    tale.ok(tale.begin(action, process=worker, worker=worker, **begun))


def look(tale: Tale, *workers: str, server: str = "s1") -> None:
    begun = tale.begin("workers", process="w", group="g", server=server)
    tale.ok(begun, workers=list(workers))


def gone(tale: Tale) -> None:
    call(tale, "lock", "w")
    look(tale, "w")
    call(tale, "leave", "w")
    look(tale)


def listed_after_its_leave(tale: Tale) -> None:
    call(tale, "lock", "w")
    call(tale, "leave", "w")
    look(tale, "w")


def joined_again(tale: Tale) -> None:
    call(tale, "lock", "w")
    call(tale, "leave", "w")
    call(tale, "lock", "w")
    look(tale, "w")


def leased_by_another_server(tale: Tale) -> None:
    call(tale, "lock", "w", server="s2")
    call(tale, "leave", "w")
    look(tale, "w")


CASES: dict[str, tuple[list[Story], list[Story]]] = {
    "left-worker-listed": (
        [listed_after_its_leave],
        [gone, joined_again, leased_by_another_server],
    ),
}
