"""Upkeep of journals: an error of one journal or segment is logged and stops no other's."""

import asyncio

import pytest
from tests.unit.log.journal.journals import (
    HEAD,
    OTHER,
    SEGMENT,
    Manifests,
    Needed,
    journal_files,
    journaled,
    not_rolled,
    segment,
)

from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.log.journal.format import file_path
from opentalos.log.journal.store import JournaledFiles
from opentalos.log.journal.upkeep import UNREAD_WAIT_S, WRITE_OUT_AFTER_S, JournalUpkeep
from opentalos.model.errors import OutcomeUnknown, RecoveryStuck, StoreUnavailable
from opentalos.model.message import Durability


def upkeep(files: JournaledFiles, needed: Needed, named: set[str] | None = None) -> JournalUpkeep:
    manifests = Manifests(needed, named)
    return JournalUpkeep(
        *(files._files, files, manifests, lambda path: None),
        *(not_rolled, manifests),
    )


def needs(*paths: str, fails: str = "") -> Needed:
    """Whether manifests need a segment; asking for one of them fails in an unexpected way."""

    async def needed(path: str) -> bool:
        if path == fails:
            raise ZeroDivisionError("a defect")
        return path in paths

    return needed


async def test_a_write_out_that_fails_unexpectedly_stops_no_other_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    broken, sound = await segment(files), await segment(files, OTHER)
    for file in (broken, sound):
        await file.commit([b"a"])

    async def defect() -> None:
        raise ZeroDivisionError("a defect")

    broken.write_out = defect  # type: ignore[method-assign]
    await asyncio.sleep(WRITE_OUT_AFTER_S)
    await upkeep(files, needs(SEGMENT, OTHER)).run_pass()
    assert bytes(storage.files[OTHER].content) == HEAD + b"a"
    assert f"upkeep of {SEGMENT} failed" in caplog.text


async def test_a_segment_whose_manifest_cannot_be_judged_keeps_no_other_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = journaled(MemoryFileStore())
    for path in (SEGMENT, OTHER):
        (await segment(files, path)).give_up(OutcomeUnknown("taken"))
    await upkeep(files, needs(fails=SEGMENT)).run_pass()
    assert list(files.open) == [SEGMENT]
    assert f"upkeep of {SEGMENT} failed" in caplog.text


async def test_a_journal_that_cannot_be_trimmed_keeps_no_other_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    dead = (await segment(files)).journal
    dead.fail(OutcomeUnknown("the disk"))
    second = (await segment(files, OTHER)).journal
    second.fail(OutcomeUnknown("the disk"))

    async def defect() -> None:
        raise ZeroDivisionError("a defect")

    dead.end = defect  # type: ignore[method-assign]
    await upkeep(files, needs()).run_pass()
    assert list(files.own) == [dead.name]
    assert f"upkeep of journal {dead.name} failed" in caplog.text


async def test_a_former_journal_that_cannot_be_judged_keeps_no_other_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = MemoryStorage()
    names = []
    for instance, path in (("first", SEGMENT), ("second", OTHER)):
        file = await segment(journaled(MemoryFileStore(storage), instance), path)
        await file.commit([b"a"])
        names.append(file.journal.name)
    files = journaled(MemoryFileStore(storage), "successor")
    care = upkeep(files, needs(fails=SEGMENT))
    await care.search()
    await care.run_pass()
    assert list(files.formers) == [names[0]]
    assert f"upkeep of journal {names[0]} failed" in caplog.text


async def test_a_journal_that_cannot_be_searched_keeps_no_other_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = MemoryStorage()
    for instance, path in (("first", SEGMENT), ("second", OTHER)):
        await (await segment(journaled(MemoryFileStore(storage), instance), path)).commit([b"a"])
    files = journaled(MemoryFileStore(storage), "successor")
    read = files.read_former

    async def defect(name: str, deadline_s: float) -> object:
        if name.startswith("first"):
            raise ZeroDivisionError("a defect")
        return await read(name, deadline_s)

    files.read_former = defect  # type: ignore[method-assign, assignment]
    care = upkeep(files, needs())
    await care.search()
    await care.run_pass()
    assert "upkeep of journal first" in caplog.text
    assert len(journal_files(storage)) == 1


@pytest.mark.parametrize("named", [set[str](), {"former-1"}], ids=["by nobody", "by a partition"])
async def test_a_journal_torn_in_its_first_write_ends_if_no_manifest_names_it(
    named: set[str],
) -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage), "successor")
    torn = await MemoryFileStore(storage).create(
        file_path("former-1", 1), durability=Durability.SYNCED
    )
    await torn.commit([bytes(200)])
    care = upkeep(files, needs())
    manifests, fenced = Manifests(needs(), named), files.read_former

    async def registered(name: str, deadline_s: float) -> object:
        care._registered = manifests  # at the last moment before the fence
        return await fenced(name, deadline_s)

    files.read_former = registered  # type: ignore[method-assign, assignment]
    await care.search()
    await care.run_pass()
    assert len(journal_files(storage)) == len(named)


async def test_openings_wait_for_the_journals_of_servers_that_ended_whatever_names_them() -> None:
    """An older manifest may lack the name, also if that of another partition has it."""
    storage = MemoryStorage()
    for instance, path in (("first", SEGMENT), ("second", OTHER)):
        await (await segment(journaled(MemoryFileStore(storage), instance), path)).commit([b"a"])
    files = journaled(MemoryFileStore(storage), "successor")
    care = upkeep(files, needs(), {"first-1", "second-1"})
    manifests = care._held
    assert isinstance(manifests, Manifests)
    manifests.lives = {"first"}
    await asyncio.gather(care.known(), care.known())
    assert [former.segments() for former in files.formers.values()] == [[OTHER]]
    manifests.lives = {"first", "third"}
    await care.known()
    assert list(files.formers) == ["second-1"]
    manifests.lives = {"third"}
    await care.known()
    assert list(files.formers) == ["second-1", "first-1"]
    await care.close()


async def test_a_search_that_has_just_ended_is_not_waited_for() -> None:
    """A server ended while it ran: the loop has to get on before the next one begins."""
    care = upkeep(journaled(MemoryFileStore(MemoryStorage()), "successor"), needs())
    await care.known()
    care._lived = frozenset(("ended",))
    care._reading = asyncio.ensure_future(asyncio.sleep(0))
    await care._reading
    await care.known()
    assert care._lived == frozenset()


async def test_a_journal_that_no_fence_ends_keeps_no_partition_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    storage = MemoryStorage()
    await segment(journaled(MemoryFileStore(storage), "first"), SEGMENT)
    files = journaled(MemoryFileStore(storage), "successor")

    async def stuck(name: str, deadline_s: float) -> object:
        raise RecoveryStuck(name)

    files.read_former = stuck  # type: ignore[method-assign, assignment]
    await upkeep(files, needs()).known()
    assert "first-1" in caplog.text


async def test_a_journal_that_cannot_be_read_is_waited_for_a_while() -> None:
    storage = MemoryStorage()
    for instance, path in (("first", SEGMENT), ("second", OTHER)):
        await segment(journaled(MemoryFileStore(storage), instance), path)
    files = journaled(MemoryFileStore(storage), "successor")
    read = files.read_former

    async def away(name: str, deadline_s: float) -> object:
        if name.startswith("first"):
            raise StoreUnavailable(name)
        return await read(name, deadline_s)

    files.read_former = away  # type: ignore[method-assign, assignment]
    care = upkeep(files, needs())
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="journal first-1"):
            await care.known()
    assert list(files.formers) == ["second-1"]
    await asyncio.sleep(UNREAD_WAIT_S)
    await care.known()
    care._lived = frozenset(("ended",))
    await care.known()  # it is tried again, and nobody waits for it
