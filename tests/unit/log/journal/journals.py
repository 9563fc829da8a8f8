"""A journal on memory adapters, and short ways to write and read one."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import count

from opentalos.adapters.memory import MemoryFileStore, MemoryStorage
from opentalos.log.counters import JournalCounters
from opentalos.log.journal.former import FormerJournal, read_former
from opentalos.log.journal.journal import Journal, JournalPlace
from opentalos.log.journal.journaled_file import JournaledFile, Sizes
from opentalos.log.journal.series import JournalSettings
from opentalos.log.journal.slots import Standing
from opentalos.log.journal.store import JournaledFiles
from opentalos.model.errors import StoreUnavailable
from opentalos.model.message import Durability, PartitionKey
from opentalos.ports.file_store import FileStore

NAME = "abc-1"
SEGMENT = "topic/0/00000000000000000000-1.log"
OTHER = "topic/1/00000000000000000000-1.log"
START_DEADLINE_S = 10.0
HEAD = b"head"
LEFT: list[str] = []  # paths of files that may be left behind
Needed = Callable[[str], Awaitable[bool]]
SIZES = Sizes(direct_bytes_min=100, write_out_bytes=200)


def seeds() -> Callable[[], int]:
    numbers = count(0x5EED0000)
    return lambda: next(numbers)


async def open_journal(files: FileStore, file_bytes_max: int = 1 << 20) -> Journal:
    journal = Journal(
        JournalPlace(files, NAME, seeds(), lambda: 1, file_bytes_max, JournalCounters())
    )
    await journal.start()
    return journal


def held_commits(journal: Journal) -> asyncio.Event:
    """Every later commit of the journal's file waits for the event, whoever gives it up."""
    file, go = journal._file, asyncio.Event()
    assert file is not None
    commit = file.commit

    async def held(
        chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
    ) -> int:
        await go.wait()
        return await commit(chunks, durability=durability)

    file.commit = held  # type: ignore[method-assign]
    return go


async def hang(
    chunks: Sequence[bytes | memoryview], *, durability: Durability | None = None
) -> int:
    """Commit of a file whose storage never answers."""
    never: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    return await never


async def former(storage: MemoryStorage, name: str = NAME) -> FormerJournal:
    files = MemoryFileStore(storage)
    return await read_former(files, name, partial(files.recover, deadline_s=1.0))


class Manifests:
    """What the upkeep asks of manifests."""

    def __init__(self, needed: Needed, journals: set[str] | None = None) -> None:
        self._needed, self._journals = needed, journals or set()
        self.lives: set[str] = set()  # instances of servers

    async def needed(self, path: str) -> bool:
        return await self._needed(path)

    def living(self) -> frozenset[str]:
        return frozenset(self.lives)

    def recover_soon(self, keys: Iterable[PartitionKey]) -> None:
        """Nobody opens them."""

    async def forget_if_settled(self, former: FormerJournal, path: str) -> bool:
        if await self._needed(path):
            return False
        former.forget(path)
        return True

    async def is_written(self, former: FormerJournal, path: str) -> bool:
        return True

    async def journals(self) -> dict[str, list[PartitionKey]]:
        return {name: [] for name in self._journals}


async def not_rolled(path: str) -> None:
    raise StoreUnavailable(path)


async def ours(path: str) -> Standing:
    return Standing.OURS


def journaled(
    files: FileStore,
    instance: str = "server",
    bytes_max: int = 4 << 20,
    series: int = 1,
    late: Callable[[str], Awaitable[Standing]] | None = None,
    files_open_max: int = 4,
) -> JournaledFiles:
    """``late``: segments are late; whose they are."""
    return JournaledFiles(
        files,
        JournalSettings(
            instance=instance,
            bytes_max=bytes_max,
            series=series,
            sizes=SIZES,
            start_deadline_s=START_DEADLINE_S,
            new_seed=seeds(),
            now_ms=lambda: 1,
            files_open_max=files_open_max if late is not None else 0,
            standing=late or ours,
            left=LEFT.append,
        ),
    )


def journal_files(storage: MemoryStorage) -> list[str]:
    return sorted(path.rpartition("/")[2] for path in storage.files if path.endswith(".jnl"))


async def segment(files: JournaledFiles, path: str = SEGMENT) -> JournaledFile:
    """A new segment with its first commit."""
    file = await files.create(path, durability=Durability.SYNCED)
    assert isinstance(file, JournaledFile)
    assert await file.commit([HEAD]) == len(HEAD)
    return file
