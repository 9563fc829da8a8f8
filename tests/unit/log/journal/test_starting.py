"""Making a journal: all openings share one attempt, and none waits for it for ever."""

import asyncio

import pytest
from tests.unit.log.faults import FaultyFiles, Steps
from tests.unit.log.journal.journals import (
    OTHER,
    SEGMENT,
    START_DEADLINE_S,
    journaled,
    segment,
)
from tests.unit.log.journal.test_upkeep import needs, upkeep

from opentalos.adapters.memory import MemoryStorage
from opentalos.log.journal.journaled_file import JournaledFile
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable
from opentalos.model.message import Durability


async def test_a_journal_that_is_never_made_holds_no_opening_beyond_its_deadline() -> None:
    storage, steps = MemoryStorage(), Steps()
    files = journaled(FaultyFiles(storage, steps))
    steps.stop_at = steps.count
    openings = [
        asyncio.ensure_future(files.create(f"topic/{at}/x.log", durability=Durability.SYNCED))
        for at in range(3)
    ]
    await steps.stopped.wait()
    await asyncio.wait(openings, timeout=START_DEADLINE_S + 1)
    assert all(isinstance(opening.exception(), StoreUnavailable) for opening in openings)
    steps.stop_at = -1
    assert (await segment(files)).journal.dead is None  # the next opening makes another one


async def test_an_opening_that_is_given_up_leaves_the_journal_to_those_that_wait() -> None:
    storage, steps = MemoryStorage(), Steps()
    files = journaled(FaultyFiles(storage, steps))
    first = asyncio.ensure_future(files.create(SEGMENT, durability=Durability.SYNCED))
    second = asyncio.ensure_future(files.create(OTHER, durability=Durability.SYNCED))
    await asyncio.sleep(0)
    first.cancel()
    assert isinstance(await second, JournaledFile)
    assert list(files.own) == ["server-1"]


async def test_a_journal_that_ended_or_was_not_made_keeps_no_descriptor() -> None:
    storage, steps = MemoryStorage(), Steps()
    files = journaled(FaultyFiles(storage, steps))
    closed: list[str] = []
    steps.script = lambda name, path, after: closed.append(path) if name == "close" else None
    file = await segment(files)
    file.journal.fail(OutcomeUnknown("the disk"))
    await upkeep(files, needs()).run_pass()
    await asyncio.sleep(0.1)
    assert "journal/server-1/00000001.jnl" in closed

    def fail(name: str, path: str, after: bool) -> None:
        closed.append(path) if name == "close" else None
        if name == "commit" and path == "journal/server-2/00000001.jnl":
            raise OutcomeUnknown("the disk")

    steps.script = fail
    with pytest.raises(OutcomeUnknown):
        await segment(files, OTHER)
    await asyncio.sleep(0.1)
    assert "journal/server-2/00000001.jnl" in closed
