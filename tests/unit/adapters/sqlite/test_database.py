"""Group commit on SQLite, and what a COMMIT that fails means for each caller."""

import asyncio
import errno
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from opentalos.adapters.sqlite import (
    SqliteMetaStore,
    database_file,
    open_sqlite_meta_store,
    open_sqlite_row_store,
)
from opentalos.adapters.sqlite.meta_store import SCHEMA
from opentalos.model.errors import (
    AlreadyExists,
    ConfigError,
    CorruptLog,
    NewerFormat,
    OutcomeUnknown,
    StorageFull,
    StoreUnavailable,
)
from opentalos.ports.meta_store import Record
from opentalos.ports.row_store import RowMutation


class Script:
    """What the connections of one test do at each statement; both sides may change it."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.before: Callable[[str], None] = lambda _statement: None
        self.after: Callable[[str], None] = lambda _statement: None

    def connection_class(self) -> type[sqlite3.Connection]:
        class Scripted(sqlite3.Connection):
            script: ClassVar[Script] = self

            def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
                self.script.statements.append(statement)
                self.script.before(statement)
                cursor = super().execute(statement, *parameters)
                self.script.after(statement)
                return cursor

        return Scripted


def sqlite_error(code: int) -> sqlite3.OperationalError:
    """An error as SQLite raises it, with its code."""
    error = sqlite3.OperationalError("injected")
    error.sqlite_errorcode = code
    return error


class FailOnce:
    """Raises ``code`` at the first statement that starts so."""

    def __init__(self, start: str, code: int = sqlite3.SQLITE_IOERR) -> None:
        self._start, self._code, self.failed = start, code, 0

    def __call__(self, statement: str) -> None:
        if statement.startswith(self._start) and not self.failed:
            self.failed += 1
            raise sqlite_error(self._code)


@pytest.fixture
def script() -> Script:
    return Script()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "meta.sqlite"


async def opened(path: Path, script: Script) -> SqliteMetaStore:
    store = await open_sqlite_meta_store(path, connection_class=script.connection_class())
    script.statements.clear()
    return store


# --- group commit -------------------------------------------------------------------------------


async def test_writes_that_wait_together_share_a_commit(path: Path, script: Script) -> None:
    store = await opened(path, script)
    await asyncio.gather(*(store.create(f"a/{number}", b"") for number in range(200)))
    assert script.statements.count("COMMIT") < 20
    assert len(await store.children("a")) == 200
    await store.close()


async def test_a_conflict_undoes_only_its_own_write(path: Path, script: Script) -> None:
    store = await opened(path, script)
    await store.create("taken", b"")
    script.statements.clear()
    results = await asyncio.gather(
        store.get("taken"),
        store.create("a", b"1"),
        store.create("taken", b"2"),
        store.create("b", b"3"),
        return_exceptions=True,
    )
    assert [type(result) for result in results] == [Record, int, AlreadyExists, int]
    assert await store.children("") == ["a", "b", "taken"]
    await store.close()


async def test_rows_of_one_call_share_a_commit(tmp_path: Path, script: Script) -> None:
    store = await open_sqlite_row_store(
        tmp_path / "rows.sqlite", connection_class=script.connection_class()
    )
    await store.open_table("t")
    script.statements.clear()
    mutations = [
        RowMutation(key=b"%d" % number, expected=0, write_id=b"w") for number in range(100)
    ]
    await store.mutate_many("t", mutations)
    assert script.statements.count("COMMIT") == 1
    await store.close()


# --- a COMMIT that fails ------------------------------------------------------------------------


@pytest.mark.parametrize("applied", [True, False])
async def test_what_another_process_writes_after_a_failed_commit_leaves_it_unknown(
    path: Path, script: Script, applied: bool
) -> None:
    store = await opened(path, script)
    version = await store.create("a", b"0")
    fail = FailOnce("COMMIT")

    def before(statement: str) -> None:
        if not applied:
            fail(statement)
        if fail.failed and statement == "PRAGMA journal_mode = WAL":  # it connects again
            with sqlite3.connect(path) as other:
                other.execute("UPDATE last_batch SET token = x'0123'")
            other.close()

    script.before = before
    if applied:
        script.after = fail
    with pytest.raises(OutcomeUnknown, match="another process"):
        await store.replace("a", b"1", version)
    script.before = script.after = lambda _statement: None
    record = await store.get("a")
    assert record is not None
    assert record.value == (b"1" if applied else b"0")
    await store.close()


async def test_a_commit_that_did_not_happen_is_not_done(path: Path, script: Script) -> None:
    store = await opened(path, script)
    script.before = FailOnce("COMMIT")
    with pytest.raises(StoreUnavailable):
        await store.create("a", b"1")
    assert await store.get("a") is None
    assert await store.create("a", b"2") == 1
    assert await store.get("a") == Record(b"2", 1)
    await store.close()


async def test_a_commit_that_happened_without_a_reply_is_done(path: Path, script: Script) -> None:
    store = await opened(path, script)
    script.after = FailOnce("COMMIT")
    assert await store.create("a", b"1") == 1
    assert await store.replace("a", b"2", 1) == 2
    await store.close()
    again = await opened(path, Script())
    assert await again.get("a") == Record(b"2", 2)
    await again.close()


async def test_a_commit_that_cannot_be_read_back_is_unknown(path: Path, script: Script) -> None:
    store = await opened(path, script)

    def broken(statement: str) -> None:
        if statement.startswith(("COMMIT", "PRAGMA")):
            raise sqlite_error(sqlite3.SQLITE_IOERR)

    script.before = broken
    with pytest.raises(OutcomeUnknown):
        await store.create("a", b"1")
    with pytest.raises(StoreUnavailable):  # not done: it was never tried
        await store.create("b", b"1")
    script.before = lambda _statement: None
    assert await store.get("a") is None
    assert await store.create("b", b"2") == 1
    await store.close()


async def test_after_a_failed_commit_the_log_is_emptied(path: Path, script: Script) -> None:
    """A crash must not bring back frames of a batch that was answered as not done."""
    store = await opened(path, script)
    await store.create("kept", b"1")
    script.before = FailOnce("COMMIT")
    with pytest.raises(StoreUnavailable):
        await store.create("refused", b"1")
    assert (path.parent / f"{path.name}-wal").stat().st_size == 0
    assert await store.get("kept") == Record(b"1", 1)
    await store.close()


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT", "COMMIT"])
async def test_a_full_disk_is_not_done_and_heals(
    path: Path, script: Script, statement: str
) -> None:
    store = await opened(path, script)
    script.before = FailOnce(statement, sqlite3.SQLITE_FULL)
    with pytest.raises(StorageFull):
        await store.create("a", b"1")
    assert await store.get("a") is None
    assert await store.create("a", b"2") == 1
    await store.close()


async def test_a_real_full_database_refuses_and_keeps_what_it_has(
    path: Path, script: Script
) -> None:
    store = await opened(path, script)
    await store.create("a", b"1")
    await store._database.run(
        lambda db: db.execute("PRAGMA max_page_count = 12").fetchone(), write=False
    )
    with pytest.raises(StorageFull):
        await store.create("large", b"x" * 100_000)
    assert await store.get("a") == Record(b"1", 1)
    assert await store.replace("a", b"2", 1) == 2
    await store.close()


async def test_a_database_that_another_process_holds_is_unavailable(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_file, "BUSY_TIMEOUT_MS", 10)
    store = await open_sqlite_meta_store(path)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable):
        await store.create("a", b"1")
    holder.execute("ROLLBACK")
    holder.close()
    assert await store.create("a", b"1") == 1
    await store.close()


async def test_reads_never_show_a_write_that_is_not_durable(path: Path, script: Script) -> None:
    store = await opened(path, script)
    await store.create("a", b"old")
    script.before = FailOnce("COMMIT")
    write = asyncio.ensure_future(store.replace("a", b"lost", 1))
    read = asyncio.ensure_future(store.get("a"))
    assert await read == Record(b"old", 1)
    with pytest.raises(StoreUnavailable):
        await write
    await store.close()


# --- files --------------------------------------------------------------------------------------


def content(path: Path) -> bytes:
    return path.read_bytes()


def fill(path: Path, with_bytes: bytes) -> None:
    path.write_bytes(with_bytes)


async def test_a_newer_format_is_refused_and_untouched(path: Path) -> None:
    await (await open_sqlite_meta_store(path)).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    before = content(path)
    with pytest.raises(NewerFormat, match=r"meta\.sqlite"):
        await open_sqlite_meta_store(path)
    assert content(path) == before


async def test_a_file_of_the_first_format_is_read_and_brought_up_to_date(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(
        "CREATE TABLE records"
        " (path TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL, session TEXT);"
        "INSERT INTO records VALUES ('a', x'01', 7, NULL);"
        f"PRAGMA application_id = {SCHEMA.application_id}; PRAGMA user_version = 1;"
    )
    connection.close()
    store = await open_sqlite_meta_store(path)
    assert await store.get("a") == Record(b"\1", 7)
    await store.delete("a", 7)
    assert await store.create("a", b"2") == 8
    await store.close()


async def test_another_kind_of_database_is_refused(path: Path) -> None:
    await (await open_sqlite_meta_store(path)).close()
    with pytest.raises(ConfigError):
        await open_sqlite_row_store(path)
    foreign = path.with_name("foreign.sqlite")
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(ConfigError):
        await open_sqlite_meta_store(foreign)


async def test_a_file_that_is_not_a_database_is_refused(path: Path) -> None:
    fill(path, b"no database at all" * 100)
    with pytest.raises(CorruptLog, match=r"meta\.sqlite is damaged: file is not a database"):
        await open_sqlite_meta_store(path)


async def test_commits_are_synced(path: Path) -> None:
    store = await open_sqlite_meta_store(path)
    settings = await store._database.run(
        lambda db: [
            db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")
        ],
        write=False,
    )
    assert settings == ["wal", 2]  # 2 is FULL
    await store.close()


# --- sessions -----------------------------------------------------------------------------------


async def test_records_of_a_process_that_died_are_swept_at_open(path: Path) -> None:
    dead = await open_sqlite_meta_store(path)
    await dead.create("servers/1", b"", ephemeral=True)
    living = await open_sqlite_meta_store(path)
    await living.create("servers/2", b"", ephemeral=True)
    os.close(dead._session.fd)  # as the kernel does when a process ends
    dead._session.fd = -1
    newcomer = await open_sqlite_meta_store(path)
    assert await newcomer.children("servers") == ["2"]
    await dead.close()
    await living.close()
    await newcomer.close()
    assert not list(path.parent.glob("*session*"))


# --- a machine without threads or memory --------------------------------------------------------


async def test_a_thread_that_cannot_be_started_is_tried_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse)
        store = SqliteMetaStore(path)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="cannot start thread"):
                await store.create("a", b"")
    await store.create("a", b"")
    await store.close()


@pytest.mark.parametrize("statement", ["INSERT", "COMMIT", "UPDATE last_batch"])
async def test_a_write_without_memory_is_not_done_and_harms_no_other(
    path: Path, script: Script, statement: str
) -> None:
    store = await opened(path, script)
    failures = iter([MemoryError()])

    def fail(text: str) -> None:
        if text.startswith(statement):
            for error in failures:
                raise error

    script.before = fail
    with pytest.raises(StoreUnavailable, match="out of memory"):
        await store.create("a", b"")
    assert await store.get("a") is None
    await store.create("a", b"after")
    await store.close()


# --- a file system that SQLite cannot use as it must ---------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "instead"),
    [
        ("PRAGMA journal_mode = WAL", "PRAGMA journal_mode = DELETE"),
        ("PRAGMA synchronous = FULL", "PRAGMA synchronous = NORMAL"),
    ],
)
async def test_a_database_that_could_lose_a_commit_is_refused(
    path: Path, wanted: str, instead: str
) -> None:
    class Weak(sqlite3.Connection):
        """As on a file system without shared memory: SQLite keeps its mode and raises nothing."""

        def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
            return super().execute(instead if statement == wanted else statement, *parameters)

    with pytest.raises(ConfigError, match=r"meta.sqlite is on \S+ at /.*; put \[server\] data on"):
        await open_sqlite_meta_store(path, connection_class=Weak)
    await (await open_sqlite_meta_store(path)).close()


async def test_an_entry_that_a_former_process_could_not_sync_is_made_durable(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await open_sqlite_meta_store(path)).close()
    synced: list[Path] = []
    real = os.fsync

    def watched(fd: int) -> None:
        synced.append(Path(os.readlink(f"/proc/self/fd/{fd}")))
        assert path.with_name("meta.sqlite-wal").exists()  # its entry, too
        real(fd)

    monkeypatch.setattr(os, "fsync", watched)
    await (await open_sqlite_meta_store(path)).close()
    assert synced == [path.parent]


@pytest.mark.parametrize("in_use", [False, True])
async def test_a_log_whose_entry_may_be_lost_is_made_anew(
    path: Path, script: Script, monkeypatch: pytest.MonkeyPatch, in_use: bool
) -> None:
    """A sync of the directory failed after SQLite had made its log: no later one covers it."""
    store, log = await opened(path, script), path.with_name("meta.sqlite-wal")
    await store.create("a", b"1")
    other = sqlite3.connect(path)
    if in_use:
        assert other.execute("SELECT count(*) FROM last_batch").fetchone() == (1,)
    former = log.open("rb")
    real, failing = os.fsync, [True]

    def fail_once(fd: int) -> None:
        if failing:
            raise OSError(errno.EIO, failing.pop() and "lost entries")
        real(fd)

    monkeypatch.setattr(os, "fsync", fail_once)
    script.before = FailOnce("BEGIN", sqlite3.SQLITE_READONLY)
    for _ in range(2):  # the connection is given up; its successor is not made
        with pytest.raises(StoreUnavailable):
            await store.create("b", b"2")
    if in_use:
        with pytest.raises(StoreUnavailable, match="may not be durable"):
            await store.create("b", b"2")
        assert os.fstat(former.fileno()).st_nlink == 1
    other.close()
    await store.create("b", b"2")
    assert os.fstat(former.fileno()).st_nlink == 0  # removed
    former.close()
    assert await store.children("") == ["a", "b"]
    await store.close()


async def test_a_connection_that_was_opened_read_only_is_replaced(
    path: Path, script: Script
) -> None:
    """As SQLite does when there is no free descriptor, or the disk fails, while it opens a file."""
    store, opened_again = await opened(path, script), 0

    def refuse(statement: str) -> None:
        nonlocal opened_again
        opened_again += statement.startswith("PRAGMA busy_timeout")
        if statement.startswith("BEGIN") and not opened_again:
            raise sqlite_error(sqlite3.SQLITE_READONLY)

    script.before = refuse
    with pytest.raises(StoreUnavailable):
        await store.create("a", b"")
    await store.create("a", b"")
    assert opened_again == 1
    await store.close()
