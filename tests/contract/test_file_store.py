"""The contract of FileStore, sentence by sentence, on every adapter."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import pytest
from tests.contract.openers import FILE_STORES, Place, Storage, params_of
from tests.waiting import limit_s

from opentalos.model.errors import (
    AlreadyExists,
    BadRequest,
    Fenced,
    NotFound,
    OutcomeUnknown,
    RecoveryStuck,
    TalosError,
)
from opentalos.model.message import Durability
from opentalos.ports.file_store import AppendFile, FileStore

SYNCED = Durability.SYNCED
RECORDS_MAX = 100_000  # of a busy writer; it is fenced long before


@pytest.fixture(params=params_of(FILE_STORES))
async def storage(
    request: pytest.FixtureRequest, place: Place
) -> AsyncIterator[Storage[FileStore]]:
    async with FILE_STORES[request.param](place) as opened:
        yield opened


@pytest.fixture
async def store(storage: Storage[FileStore]) -> FileStore:
    return await storage.client()


@pytest.fixture
async def other(storage: Storage[FileStore]) -> FileStore:
    """A second client of the same storage."""
    return await storage.client()


@pytest.fixture
def folder() -> str:
    """A folder that no other case uses."""
    return f"case-{uuid.uuid4().hex}"


async def content(store: FileStore, path: str) -> bytes:
    return await store.read(path, position=0, bytes_max=1 << 20)


# --- create -----------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", list(Durability))
async def test_commits_return_the_length_and_are_read_back_in_order(
    store: FileStore, folder: str, durability: Durability
) -> None:
    file = await store.create(f"{folder}/a", durability=durability)
    assert await file.commit([b"one"]) == 3
    assert await file.commit([b"two", memoryview(b"three"), b""]) == 11
    assert await file.close() == 11
    assert await content(store, f"{folder}/a") == b"onetwothree"


@pytest.mark.parametrize("durability", list(Durability))
async def test_a_commit_may_have_a_durability_of_its_own(
    store: FileStore, folder: str, durability: Durability
) -> None:
    file = await store.create(f"{folder}/a", durability=durability)
    written = b""
    for own in (Durability.FLUSHED, SYNCED, None, Durability.FLUSHED, Durability.FLUSHED):
        written += b"%d" % len(written)
        assert await file.commit([written[-1:]], durability=own) == len(written)
        assert await content(store, f"{folder}/a") == written
    assert await file.close() == 5
    assert await store.recover(f"{folder}/a", deadline_s=limit_s()) == 5


async def test_create_is_exclusive(store: FileStore, other: FileStore, folder: str) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    for client in (store, other):
        with pytest.raises(AlreadyExists):
            await client.create(f"{folder}/a", durability=SYNCED)
    assert await file.commit([b"still mine"]) == 10


async def test_of_two_creates_at_once_one_wins(
    store: FileStore, other: FileStore, folder: str
) -> None:
    results = await asyncio.gather(
        *(client.create(f"{folder}/a", durability=SYNCED) for client in (store, other)),
        return_exceptions=True,
    )
    failures = [result for result in results if isinstance(result, BaseException)]
    assert [type(failure) for failure in failures] == [AlreadyExists]


async def test_a_closed_file_is_not_created_again(store: FileStore, folder: str) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    await file.close()
    with pytest.raises(AlreadyExists):
        await store.create(f"{folder}/a", durability=SYNCED)


async def test_a_new_file_is_empty_and_seen_by_others(
    store: FileStore, other: FileStore, folder: str
) -> None:
    await store.create(f"{folder}/x/y/z", durability=SYNCED)
    assert await other.list(folder) == [f"{folder}/x/y/z"]
    assert await content(other, f"{folder}/x/y/z") == b""


@pytest.mark.parametrize(
    "path", ["", "/a", "a//b", "../a", "a/../b", "a/.", "a b", "a\0b", "ä", "a/", "a" * 2000]
)
async def test_a_path_outside_the_rule_is_refused(store: FileStore, path: str) -> None:
    for call in (
        store.create(path, durability=SYNCED),
        store.read(path, position=0, bytes_max=1),
        store.recover(path, deadline_s=limit_s()),
        store.delete(path),
    ):
        with pytest.raises(BadRequest):
            await call


# --- commit and close -------------------------------------------------------------------------


async def test_many_chunks_are_one_commit(store: FileStore, folder: str) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    chunks = [b"%04d" % number for number in range(3000)]
    assert await file.commit(chunks) == 12_000
    assert await content(store, f"{folder}/a") == b"".join(chunks)


async def test_a_large_commit_is_whole(store: FileStore, folder: str) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    assert await file.commit([bytes(5 << 20), b"end"]) == (5 << 20) + 3
    assert await store.read(f"{folder}/a", position=5 << 20, bytes_max=10) == b"end"


async def test_an_empty_commit_changes_nothing(store: FileStore, folder: str) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    await file.commit([b"abc"])
    assert await file.commit([]) == 3


async def test_a_closed_file_takes_no_commit(store: FileStore, folder: str) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    await file.commit([b"abc"])
    assert await file.close() == 3
    with pytest.raises(OutcomeUnknown):
        await file.commit([b"more"])
    assert await content(store, f"{folder}/a") == b"abc"


async def test_files_of_one_client_do_not_mix(store: FileStore, folder: str) -> None:
    files = [await store.create(f"{folder}/{n}", durability=SYNCED) for n in range(8)]
    for turn in range(5):
        await asyncio.gather(*(f.commit([b"%d.%d " % (n, turn)]) for n, f in enumerate(files)))
    for n in range(8):
        expected = b"".join(b"%d.%d " % (n, turn) for turn in range(5))
        assert await content(store, f"{folder}/{n}") == expected


# --- read -------------------------------------------------------------------------------------


async def test_every_client_reads_what_was_committed_before(
    store: FileStore, other: FileStore, folder: str
) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    committed = b""
    for number in range(5):
        chunk = b"%d," % number
        await file.commit([chunk])
        committed += chunk
        assert (await content(store, f"{folder}/a")).startswith(committed)
        assert (await content(other, f"{folder}/a")).startswith(committed)


async def test_read_returns_fewer_bytes_only_at_the_end(store: FileStore, folder: str) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    await file.commit([b"0123456789"])
    await file.close()
    for position in range(12):
        for bytes_max in (0, 1, 4, 20):
            read = await store.read(f"{folder}/a", position=position, bytes_max=bytes_max)
            assert read == b"0123456789"[position : position + bytes_max]


async def test_an_absent_file_is_not_found(store: FileStore, folder: str) -> None:
    with pytest.raises(NotFound):
        await store.read(f"{folder}/a", position=0, bytes_max=1)
    with pytest.raises(NotFound):
        await store.recover(f"{folder}/a", deadline_s=limit_s())
    assert await store.list(folder) == []


async def test_a_reopened_client_sees_what_was_committed(
    storage: Storage[FileStore], folder: str
) -> None:
    first = await storage.client()
    file = await first.create(f"{folder}/a", durability=SYNCED)
    await file.commit([b"kept"])
    await file.close()
    await first.close()
    second = await storage.client()
    assert await second.list(folder) == [f"{folder}/a"]
    assert await content(second, f"{folder}/a") == b"kept"
    with pytest.raises(AlreadyExists):
        await second.create(f"{folder}/a", durability=SYNCED)


# --- recover ----------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", list(Durability))
async def test_recover_fences_the_former_writer(
    store: FileStore, other: FileStore, folder: str, durability: Durability
) -> None:
    old = await store.create(f"{folder}/a", durability=durability)
    await old.commit([b"kept"])
    assert await other.recover(f"{folder}/a", deadline_s=limit_s()) == 4
    with pytest.raises(Fenced):
        await old.commit([b"lost"])
    assert await content(other, f"{folder}/a") == b"kept"
    assert await content(store, f"{folder}/a") == b"kept"


async def test_a_fenced_file_stays_closed(store: FileStore, other: FileStore, folder: str) -> None:
    old = await store.create(f"{folder}/a", durability=SYNCED)
    await other.recover(f"{folder}/a", deadline_s=limit_s())
    for _ in range(3):
        with pytest.raises(OutcomeUnknown):
            await old.commit([b"lost"])
    with pytest.raises(OutcomeUnknown):
        await old.close()


async def test_a_fenced_writer_cannot_close(
    store: FileStore, other: FileStore, folder: str
) -> None:
    old = await store.create(f"{folder}/a", durability=SYNCED)
    await old.commit([b"kept"])
    await other.recover(f"{folder}/a", deadline_s=limit_s())
    with pytest.raises(OutcomeUnknown):
        await old.close()


async def test_recover_is_idempotent_by_anyone(
    store: FileStore, other: FileStore, folder: str
) -> None:
    old = await store.create(f"{folder}/a", durability=SYNCED)
    await old.commit([b"kept"])
    lengths = [await other.recover(f"{folder}/a", deadline_s=limit_s())]
    with pytest.raises(OutcomeUnknown):
        await old.commit([b"lost"])
    lengths += [
        await client.recover(f"{folder}/a", deadline_s=limit_s())
        for client in (store, other, store)
    ]
    assert lengths == [4] * 4


async def test_recover_of_a_closed_file_returns_its_length(
    store: FileStore, other: FileStore, folder: str
) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    await file.commit([b"12345"])
    await file.close()
    assert await other.recover(f"{folder}/a", deadline_s=limit_s()) == 5


async def test_two_recoverers_agree(store: FileStore, other: FileStore, folder: str) -> None:
    old = await store.create(f"{folder}/a", durability=SYNCED)
    await old.commit([b"kept"])
    late = asyncio.ensure_future(old.commit([b"perhaps"]))
    lengths = await asyncio.gather(
        *(client.recover(f"{folder}/a", deadline_s=limit_s()) for client in (store, other))
    )
    await asyncio.gather(late, return_exceptions=True)
    assert lengths[0] == lengths[1]
    assert len(await content(other, f"{folder}/a")) == lengths[0]


class BusyWriter:
    """Commits numbered records of 8 bytes for as long as the store lets it."""

    def __init__(self, file: AppendFile, enough: int) -> None:
        self.acked: list[int] = []
        self._file, self._enough, self._reached = file, enough, asyncio.Event()
        self.task = asyncio.ensure_future(self._run())

    async def reached(self) -> None:
        """Return once ``enough`` commits succeeded; the writer continues."""
        await self._reached.wait()

    async def _run(self) -> None:
        while len(self.acked) < RECORDS_MAX:
            self.acked.append(await self._file.commit([b"%07d\n" % len(self.acked)]))
            if len(self.acked) == self._enough:
                self._reached.set()


async def taken(
    storage: Storage[FileStore], clients: tuple[FileStore, FileStore], path: str, enough: int
) -> tuple[str, BusyWriter, int]:
    """A file that the second client took from a busy writer of the first: path, writer, length.

    RecoveryStuck is no success and no harm; where the storage may say it, another file is tried.
    """
    former, other = clients
    for attempt in range(storage.stuck_max + 1):
        target = f"{path}{attempt}"
        writer = BusyWriter(await former.create(target, durability=SYNCED), enough)
        await writer.reached()
        try:
            return target, writer, await other.recover(target, deadline_s=limit_s())
        except RecoveryStuck:
            if attempt == storage.stuck_max:
                raise
            with pytest.raises(OutcomeUnknown):  # even so the writer can commit no more
                await writer.task
    raise AssertionError("not reached")


@pytest.mark.parametrize("turn", range(5))
async def test_the_recovered_length_covers_every_commit_that_succeeded(
    storage: Storage[FileStore], store: FileStore, other: FileStore, folder: str, turn: int
) -> None:
    path, writer, length = await taken(storage, (store, other), f"{folder}/a", 3 + turn)
    with pytest.raises(OutcomeUnknown):
        await writer.task
    acked = writer.acked
    assert length >= acked[-1] == 8 * len(acked)
    read = await content(other, path)
    assert len(read) == length
    assert read.startswith(b"".join(b"%07d\n" % number for number in range(len(acked))))


async def test_a_recovered_file_never_changes_again(
    storage: Storage[FileStore], store: FileStore, other: FileStore, folder: str
) -> None:
    path, writer, length = await taken(storage, (store, other), f"{folder}/a", 3)
    before = await content(other, path)
    await asyncio.gather(writer.task, return_exceptions=True)
    assert await content(other, path) == await content(store, path) == before
    assert await store.recover(path, deadline_s=limit_s()) == length
    with pytest.raises(AlreadyExists):
        await other.create(path, durability=SYNCED)


async def test_an_interrupted_commit_kills_the_file(
    store: FileStore, other: FileStore, folder: str
) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    await file.commit([b"kept"])
    commit = asyncio.ensure_future(file.commit([b"perhaps"]))
    await asyncio.sleep(0)
    commit.cancel()
    result = (await asyncio.gather(commit, return_exceptions=True))[0]
    if result == 11:
        return  # done before the interrupt came: nothing to see
    with pytest.raises(OutcomeUnknown):
        await file.commit([b"never"])
    assert await other.recover(f"{folder}/a", deadline_s=limit_s()) >= 4
    assert (await content(other, f"{folder}/a")) in {b"kept"} | {
        b"kept" + b"perhaps"[:n] for n in range(8)
    }


# --- list -------------------------------------------------------------------------------------


async def test_list_is_sorted_and_of_folders(store: FileStore, folder: str) -> None:
    names = ["b/2", "b/10", "a/x/y", "a/x-1", "a/x.1", "ab/1", "c"]
    for name in names:
        await (await store.create(f"{folder}/{name}", durability=SYNCED)).close()
    expected = sorted(f"{folder}/{name}" for name in names)
    assert await store.list(folder) == expected
    assert await store.list(f"{folder}/") == expected
    assert await store.list(f"{folder}/a") == [
        path for path in expected if path.startswith(f"{folder}/a/")
    ]
    assert await store.list(f"{folder}/a/x") == [f"{folder}/a/x/y"]
    assert await store.list(f"{folder}/nothing") == []
    everything = await store.list("")
    assert set(expected) <= set(everything)
    assert list(everything) == sorted(everything)


async def test_list_shows_recovered_files_once(
    store: FileStore, other: FileStore, folder: str
) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    await file.commit([b"x"])
    await other.recover(f"{folder}/a", deadline_s=limit_s())
    assert await store.list(folder) == await other.list(folder) == [f"{folder}/a"]


# --- delete -----------------------------------------------------------------------------------


async def test_delete_removes_the_file_for_all_readers(
    store: FileStore, other: FileStore, folder: str
) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    await file.commit([b"gone"])
    await file.close()
    await content(other, f"{folder}/a")
    await store.delete(f"{folder}/a")
    for client in (store, other):
        assert await client.list(folder) == []
        with pytest.raises(NotFound):
            await content(client, f"{folder}/a")


async def test_delete_of_an_absent_file_succeeds(store: FileStore, folder: str) -> None:
    await store.delete(f"{folder}/a")
    await (await store.create(f"{folder}/a", durability=SYNCED)).close()
    await store.delete(f"{folder}/a")
    await store.delete(f"{folder}/a")
    assert await store.list(folder) == []


async def test_delete_fences_first(store: FileStore, other: FileStore, folder: str) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    await file.commit([b"gone"])
    await other.delete(f"{folder}/a")
    with pytest.raises(OutcomeUnknown):
        await file.commit([b"lost"])
    assert await other.list(folder) == []


async def test_delete_removes_a_recovered_file_whole(
    store: FileStore, other: FileStore, folder: str
) -> None:
    file = await store.create(f"{folder}/a", durability=SYNCED)
    await file.commit([b"old"])
    await other.recover(f"{folder}/a", deadline_s=limit_s())
    await content(other, f"{folder}/a")
    await store.delete(f"{folder}/a")
    again = await store.create(f"{folder}/a", durability=SYNCED)
    assert await again.commit([b"newer"]) == 5
    assert await content(other, f"{folder}/a") == b"newer"
    with pytest.raises(OutcomeUnknown):
        await file.commit([b"lost"])
    assert await content(other, f"{folder}/a") == b"newer"


# --- the rest ---------------------------------------------------------------------------------


async def test_space_is_free_bytes(store: FileStore) -> None:
    assert await store.space() > 0


async def test_a_closed_store_refuses_calls_and_its_files_are_dead(
    storage: Storage[FileStore], folder: str
) -> None:
    store = await storage.client()
    file = await store.create(f"{folder}/a", durability=SYNCED)
    await file.commit([b"kept"])
    await store.close()
    await store.close()
    with pytest.raises(TalosError):
        await file.commit([b"never"])
    with pytest.raises(TalosError):
        await store.list(folder)
    survivor = await storage.client()
    assert await survivor.recover(f"{folder}/a", deadline_s=limit_s()) == 4
