"""What recoveries of journals hold in memory, and what they read again."""

import asyncio

import pytest
from tests.unit.log.journal.journals import HEAD, SEGMENT, journaled, segment

from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.model.errors import CorruptLog


async def test_what_former_journals_hold_in_memory_is_bounded() -> None:
    """Their servers may have had a larger setting, and several may have died at once."""
    storage, dead = MemoryStorage(), []
    for server in ("first", "second"):
        files = journaled(MemoryFileStore(storage), server)
        for number in range(4):
            file = await segment(files, f"{server}/{number}/00000000000000000000-1.log")
            for at in range(3):
                await file.commit([b"%d-%d" % (number, at) + bytes(40)])
            dead.append(file)
    successor = journaled(MemoryFileStore(storage), "successor", bytes_max=200)
    for file in dead:
        end = await successor.recover_end(file.path, file.journal.name, 1.0)
        assert end == (len(HEAD) + 3 * 43, len(HEAD))
        raw = await successor.read(file.path, position=len(HEAD), bytes_max=1_000)
        name = file.path.split("/")[1].encode()
        assert raw == b"".join(b"%s-%d" % (name, at) + bytes(40) for at in range(3))
    held = [
        former.extents(path).bytes
        for former in successor.formers.values()
        for path in dict(former._extents)
    ]
    assert 0 < sum(held) == successor._former_memory.bytes <= 200
    for file in dead:
        successor.settle(file.path)
    assert successor._former_memory.bytes == 0


async def test_a_group_that_rots_before_it_is_read_again_is_refused() -> None:
    storage = MemoryStorage()
    file = await segment(journaled(MemoryFileStore(storage)))
    await file.commit([b"not in memory"])
    successor = journaled(MemoryFileStore(storage), "successor", bytes_max=1)
    await successor.read_former(file.journal.name, 1.0)
    (path,) = [path for path in storage.files if path.endswith(".jnl")]
    content = storage.files[path].content
    content[content.index(b"not in")] ^= 1
    with pytest.raises(CorruptLog, match="not what was there"):
        await successor.recover_end(SEGMENT, file.journal.name, 1.0)


async def test_groups_out_of_memory_are_dropped_and_judged_as_those_in_it() -> None:
    storage = MemoryStorage()
    files = journaled(MemoryFileStore(storage))
    file = await segment(files)
    await file.commit([b"a" * 30])
    await file.write_out()
    await file.commit([b"b" * 30])
    await asyncio.sleep(0.1)
    successor = journaled(MemoryFileStore(storage), "successor", bytes_max=20)
    end = await successor.recover_end(SEGMENT, file.journal.name, 1.0)
    assert end == (len(HEAD) + 60, len(HEAD) + 30)
