"""A store that has its root for itself reads the page cache without a thread, where it is built."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.waiting import limit_s

from opentalos.adapters.local import LocalFileStore, open_local_file_store
from opentalos.adapters.local.fence_watch import watch_of
from opentalos.adapters.store_path import FENCE_SUFFIX
from opentalos.model.errors import NotFound
from opentalos.model.message import Durability

FLUSHED = Durability.FLUSHED
CONTENT = bytes(range(256)) * 256


@pytest.fixture
async def store(tmp_path: Path, accelerator: str) -> AsyncIterator[LocalFileStore]:
    opened = await open_local_file_store(tmp_path, exclusive=True, accelerator=accelerator)
    file = await opened.create("t/0", durability=FLUSHED)
    await file.commit([CONTENT])
    yield opened
    await opened.close()


async def read(store: LocalFileStore, position: int = 0, bytes_max: int = 1 << 20) -> bytes:
    """The second read of a file is the first that needs no thread."""
    first = await store.read("t/0", position=position, bytes_max=bytes_max)
    assert await store.read("t/0", position=position, bytes_max=bytes_max) == first
    return first


@pytest.mark.parametrize(
    ("position", "bytes_max"), [(0, 65_536), (4_095, 4_098), (65_535, 1), (3, 0), (65_536, 9)]
)
async def test_any_part_is_what_was_committed(
    store: LocalFileStore, position: int, bytes_max: int
) -> None:
    assert await read(store, position, bytes_max) == CONTENT[position : position + bytes_max]


async def test_what_left_the_page_cache_is_read_from_the_disk(
    store: LocalFileStore, tmp_path: Path
) -> None:
    await read(store)
    fd = os.open(tmp_path / "t/0", os.O_RDWR)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    assert await read(store) == CONTENT


async def test_a_fence_bounds_the_next_read(store: LocalFileStore, tmp_path: Path) -> None:
    await read(store)
    other = await open_local_file_store(tmp_path, exclusive=True)
    assert await other.recover("t/0", deadline_s=limit_s()) == len(CONTENT)
    await other.close()
    append(tmp_path, b"of a former writer")
    assert await read(store) == CONTENT


async def test_a_fence_that_was_begun_bounds_reads_once_it_is_complete(
    store: LocalFileStore, tmp_path: Path
) -> None:
    (tmp_path / f"t/0{FENCE_SUFFIX}").touch()
    watch_of(tmp_path).made()
    await read(store)
    assert await store.recover("t/0", deadline_s=limit_s()) == len(CONTENT)
    append(tmp_path, b"of a former writer")
    assert await read(store) == CONTENT


async def test_a_new_file_of_a_deleted_name_is_read_instead(store: LocalFileStore) -> None:
    await read(store)
    await store.delete("t/0")
    with pytest.raises(NotFound):
        await read(store)
    file = await store.create("t/0", durability=FLUSHED)
    await file.commit([b"new"])
    assert await read(store) == b"new"


async def test_others_have_their_turn_between_two_reads(store: LocalFileStore) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(count())
    for _ in range(20):
        await read(store)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert turns >= 20


def append(root: Path, content: bytes) -> None:
    """Past what was committed, as a writer that does not know of its end."""
    with (root / "t/0").open("ab") as file:
        file.write(content)
