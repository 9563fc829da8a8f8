"""Several journals of one server: each takes its share of the segments and dies alone."""

import asyncio

import pytest
from tests.unit.log.journal.journals import held_commits, journaled, segment

from opentalos.adapters.memory import MemoryFileStore
from opentalos.log.journal.store import JournaledFiles
from opentalos.model.errors import AlreadyExists, OutcomeUnknown


def files_with(series: int) -> JournaledFiles:
    return journaled(MemoryFileStore(), series=series)


async def test_open_segments_are_spread_evenly_over_the_journals() -> None:
    files = files_with(2)
    made = [await segment(files, f"topic/{at}/1.log") for at in range(6)]
    assert sorted(file.journal.name for file in made) == ["server-1"] * 3 + ["server-2"] * 3
    for file in made:
        if file.journal.name == "server-1":
            await file.close()
    following = [await segment(files, f"topic/{at}/2.log") for at in range(3)]
    assert [file.journal.name for file in following] == ["server-1"] * 3


async def test_a_journal_that_waits_for_its_disk_holds_no_other() -> None:
    files = files_with(2)
    slow, quick = await segment(files, "topic/0/1.log"), await segment(files, "topic/1/1.log")
    go = held_commits(slow.journal)
    waiting = asyncio.ensure_future(slow.commit([b"a"]))
    assert await quick.commit([b"b"]) == 5
    assert not waiting.done()
    go.set()
    assert await waiting == 5


async def test_a_journal_that_dies_is_replaced_and_the_other_one_stays() -> None:
    files = files_with(2)
    first, second = await segment(files, "topic/0/1.log"), await segment(files, "topic/1/1.log")
    first.journal.fail(OutcomeUnknown("the disk"))
    await first.close()
    third = await segment(files, "topic/2/1.log")
    assert third.journal.name == "server-3"
    assert second.journal.dead is None
    assert await second.commit([b"b"]) == 5


async def test_an_opening_that_fails_takes_no_share() -> None:
    files = files_with(2)
    file = await segment(files, "topic/0/1.log")
    with pytest.raises(AlreadyExists):
        await segment(files, file.path)
    assert [series.segments for series in files._series] == [1, 0]


def test_the_bound_on_bytes_is_that_of_all_journals_together() -> None:
    assert files_with(4).settings.journal_bytes_max == files_with(1).settings.bytes_max // 4
