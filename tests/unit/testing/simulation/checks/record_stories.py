"""Hand-made histories of deleted beginnings and of batches in flight together; see ``stories``."""

from typing import Any

from tests.unit.testing.simulation.checks.stories import Story
from tests.unit.testing.simulation.checks.tale import Tale


def deleted(tale: Tale, start: int, **args: Any) -> None:
    tale.ok(tale.begin("trim", **{"offset": start, "server": "s1", **args}), start=start)


def begins_below_the_floor(tale: Tale) -> None:
    deleted(tale, 3)
    tale.range(2, 5)


def repeated_with_a_lower_start(tale: Tale) -> None:
    deleted(tale, 3)
    tale.ok(tale.begin("trim", offset=1), start=2)


def begins_there_after_a_loss_of_power(tale: Tale) -> None:
    tale.note("topic", topic="t", durability="flushed")
    deleted(tale, 3)
    tale.note("power-loss")
    tale.range(0, 1)


def begins_at_the_floor(tale: Tale) -> None:
    deleted(tale, 3)
    deleted(tale, 3, offset=1)
    tale.range(3, 5)


def asked_before_the_deletion_ended(tale: Tale) -> None:
    asked = tale.begin("range")
    deleted(tale, 3)
    tale.ok(asked, start=2, next=5)


def deleted_perhaps(tale: Tale) -> None:
    tale.recorder.unknown(tale.begin("trim", offset=3), "OutcomeUnknown")
    tale.range(0, 5)


def the_topic_was_deleted(tale: Tale) -> None:
    deleted(tale, 3)
    tale.begin("delete")
    tale.range(0, 0)


def puts(tale: Tale, count: int = 5) -> None:
    for number in range(count):
        tale.put(str(number))


def read_by_offset(tale: Tale) -> None:
    puts(tale)
    deleted(tale, 3)
    tale.read(2, "2", "3", server="s1")


def read_by_a_block_below(tale: Tale) -> None:
    puts(tale)
    deleted(tale, 3)
    tale.read(-1, "1", "2", base=1, server="s1")


def read_at_a_server_that_started_later(tale: Tale) -> None:
    puts(tale)
    deleted(tale, 3)
    tale.note("started", server="s2")
    tale.read(1, "1", server="s2")


def read_when_all_is_quiet(tale: Tale) -> None:
    tale.note("assigned", topic="t", owners=["s1"])
    puts(tale)
    deleted(tale, 3)
    tale.read(2, "2", server="s2", quiet=True)


def read_from_within_a_block(tale: Tale) -> None:
    puts(tale)
    deleted(tale, 3)
    tale.read(3, "2", "3", base=2, server="s1")


def read_at_a_server_that_does_not_know(tale: Tale) -> None:
    puts(tale)
    tale.note("started", server="s2")
    deleted(tale, 3)
    tale.read(1, "1", server="s2")


def read_while_it_was_deleted(tale: Tale) -> None:
    puts(tale)
    read = tale.begin("read", offset=1, server="s1")
    deleted(tale, 3)
    tale.ok(read, blocks=[[1, ["1"]]])


def batch(tale: Tale, number: int, outcome: str = "ok", lane: str = "p.0") -> None:
    name = f"{lane}:{number}"
    tale.put(name, outcome=outcome, idempotent=True, lane=lane, number=number)


def stored_without_the_one_before(tale: Tale) -> None:
    batch(tale, 0)
    batch(tale, 1, "unknown")
    batch(tale, 2)
    tale.final(0, "p.0:0", "p.0:2")


def the_last_is_not_stored(tale: Tale) -> None:
    batch(tale, 0)
    batch(tale, 1)
    batch(tale, 2, "unknown")
    batch(tale, 0, lane="p.1")
    tale.final(0, "p.0:0", "p.0:1", "p.1:0")


def the_first_was_dropped(tale: Tale) -> None:
    for number in range(3):
        batch(tale, number)
    tale.read(0, "p.0:0", "p.0:1")
    tale.final(2, "p.0:2")


def joined(tale: Tale, process: str) -> None:
    join = tale.begin("member-join", process, group="g")
    tale.ok(join, member=process, generation=1, partitions=[0])


def committed(tale: Tale, process: str) -> None:
    tale.ok(tale.begin("member-commit", process, group="g", offset=1))


def in_turn_without_a_join(tale: Tale) -> None:
    for process in ("a", "b"):
        joined(tale, process)
        committed(tale, process)
    committed(tale, "a")


def in_turn_with_joins(tale: Tale) -> None:
    for process in ("a", "b", "a"):
        joined(tale, process)
        committed(tale, process)


def perhaps_joined_again(tale: Tale) -> None:
    for process in ("a", "b"):
        joined(tale, process)
        committed(tale, process)
    tale.recorder.unknown(tale.begin("member-join", "a", group="g"), "ServerLost")
    committed(tale, "a")


def deleted_and_stored(tale: Tale, offset: int, *, twice: bool = False, later: bool = True) -> None:
    """All below 3 is deleted, and a message stored; ``later``: it is sent after the deletion."""
    if twice:
        tale.recorder.unknown(tale.begin("put", ids=["x"]), "no answer")
    put = None if later else tale.begin("put", ids=["x"])
    tale.ok(tale.begin("trim", offset=3), start=3)
    tale.ok(put or tale.begin("put", ids=["x"]), offset=offset)


CASES: dict[str, tuple[list[Story], list[Story]]] = {
    "hidden-write": (
        [lambda tale: deleted_and_stored(tale, 2)],
        [
            lambda tale: deleted_and_stored(tale, 3),
            lambda tale: deleted_and_stored(tale, 2, twice=True),
            lambda tale: deleted_and_stored(tale, 2, later=False),
        ],
    ),
    "lost-floor": (
        [
            begins_below_the_floor,
            repeated_with_a_lower_start,
            begins_there_after_a_loss_of_power,
        ],
        [
            begins_at_the_floor,
            asked_before_the_deletion_ended,
            deleted_perhaps,
            the_topic_was_deleted,
        ],
    ),
    "deleted-read": (
        [
            read_by_offset,
            read_by_a_block_below,
            read_at_a_server_that_started_later,
            read_when_all_is_quiet,
        ],
        [
            read_from_within_a_block,
            read_at_a_server_that_does_not_know,
            read_while_it_was_deleted,
        ],
    ),
    "sequence-hole": (
        [stored_without_the_one_before],
        [the_last_is_not_stored, the_first_was_dropped],
    ),
}
