"""A put of several blocks is called not done only if none of them can be stored."""

from collections.abc import Callable

from opentalos.broker.messaging.append_future import ManyBlocks
from opentalos.model.errors import OutcomeUnknown, StorageFull, TalosError


def combined(*answers: TalosError | None) -> TalosError | None:
    """The answer to the caller if the log answers the blocks so, in this order."""
    heard: list[TalosError | None] = []
    waiting = ManyBlocks(len(answers), lambda _, error: heard.append(error))
    done: Callable[[int, TalosError | None], None] = waiting._done
    for answer in answers:
        done(-1, answer)
    (only,) = heard
    return only


def test_an_unknown_block_makes_the_put_unknown_in_any_order() -> None:
    full, unknown = StorageFull("no room"), OutcomeUnknown("no answer")
    assert combined(full, unknown) is unknown
    assert combined(unknown, full) is unknown


def test_a_stored_block_makes_a_refused_put_unknown() -> None:
    assert isinstance(combined(None, StorageFull("no room")), OutcomeUnknown)


def test_a_put_is_not_done_if_no_block_is_stored() -> None:
    full = StorageFull("no room")
    assert combined(full, StorageFull("no room")) is full
    assert combined(None, None) is None
