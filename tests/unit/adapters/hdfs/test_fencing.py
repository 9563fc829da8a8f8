"""How long a fence may take."""

import asyncio
from types import SimpleNamespace

import pytest
from tests.waiting import limit_s

from opentalos.adapters.hdfs.file_store import HdfsFileStore
from opentalos.adapters.io_threads import IoThreads
from opentalos.model.errors import RecoveryStuck
from opentalos.model.limits import HdfsLimits

DEADLINE_S = 0.5
FILES = 8


class HangingFile:
    """A file of this server whose commit hangs."""

    name = "a"
    waited_for = False

    async def settled(self, wait_s: float) -> None:
        self.waited_for = True
        await asyncio.sleep(wait_s)


async def test_files_that_are_still_written_cost_no_more_than_the_deadline() -> None:
    client = SimpleNamespace(recover=lambda path: 7, full_name=lambda path: path)
    threads = IoThreads("test", threads=1)
    store = HdfsFileStore(client, HdfsLimits(), threads)  # type: ignore[arg-type]
    files = [HangingFile() for _ in range(FILES)]
    store._files.update(dict.fromkeys(files))  # type: ignore[arg-type]
    with pytest.raises(RecoveryStuck):
        await store.recover("a", deadline_s=DEADLINE_S)
    assert 0 < sum(file.waited_for for file in files) < FILES / 2, "each costs as much"
    store._files.clear()
    assert await store.recover("a", deadline_s=limit_s()) == 7
