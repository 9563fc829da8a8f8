"""A database that is older than the files beside it is named at the start."""

import shutil
from pathlib import Path

import pytest

from opentalos.adapters.sqlite.snapshot import copy_database
from opentalos.model.errors import ConfigError, CorruptLog, StoreUnavailable
from opentalos.server import run_numbers
from opentalos.server.config import Config
from opentalos.server.data_directory import read_run
from opentalos.server.run_numbers import RunNumbers
from opentalos.server.stores import META_FILE, ROWS_FILE, Stores, numbered, open_stores

DATABASES = (META_FILE, ROWS_FILE)
pytestmark = pytest.mark.real_time


async def started(data: Path) -> Stores:
    return await open_stores(Config(), data)


async def run_once(data: Path) -> None:
    await (await started(data)).close()


async def numbers(data: Path) -> tuple[int, ...]:
    stores = await started(data)
    found = [
        await store.last_run() for store in numbered(Config(), stores.rows, stores.meta).values()
    ]
    await stores.close()
    return (*found, read_run(data) or 0)


def copied(path: Path, target: Path) -> Path:
    """A copy of a database or its server's directory, as an operator makes one."""
    target.mkdir()
    for each in (path, *path.parent.glob(f"{path.name}-wal")):
        shutil.copy(each, target)
    return target / path.name


def as_killed(data: Path) -> Path:
    """What a kill would leave now."""
    copy = data / "copy"
    copy.mkdir()
    for path in [*data.glob("*.sqlite*"), *data.glob("*.json")]:
        if not path.name.endswith("-shm"):
            shutil.copy(path, copy)
    return copy


def put_back(copy: Path, data: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        (data / f"{copy.name}{suffix}").unlink(missing_ok=True)
    for each in copy.parent.iterdir():
        shutil.copy(each, data)


async def test_a_start_and_a_stop_raise_the_number_in_every_file(tmp_path: Path) -> None:
    assert await numbers(tmp_path) == (1, 1, 2)  # read during the run; then it was stopped
    assert await numbers(tmp_path) == (3, 3, 4)


@pytest.mark.parametrize("name", DATABASES)
@pytest.mark.parametrize("running", [True, False])
async def test_a_database_of_an_earlier_time_is_refused_by_name(
    tmp_path: Path, name: str, running: bool
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    stores = await started(data)
    if running:
        copy = copied(data / name, tmp_path / "copy")
    await stores.close()
    if not running:
        copy = copied(data / name, tmp_path / "copy")
        await run_once(data)
    put_back(copy, data)
    for _ in range(2):
        with pytest.raises(CorruptLog, match=rf"{name} was put back from an older copy.*run\.json"):
            await started(data)
    (data / "run.json").unlink()  # as the text says
    await run_once(data)


async def test_a_log_that_was_emptied_after_a_kill_is_refused(tmp_path: Path) -> None:
    await run_once(tmp_path)
    killed = await started(tmp_path)
    copy = as_killed(tmp_path)
    await killed.close()
    (copy / f"{META_FILE}-wal").write_bytes(b"")
    with pytest.raises(CorruptLog, match=r"meta\.sqlite was put back from an older copy, or lost"):
        await started(copy)


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("writes", range(4))
async def test_a_crash_between_the_writes_is_no_older_copy(
    tmp_path: Path, stop: bool, writes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two databases and a file; a start or a stop ends after so many of them."""
    await run_once(tmp_path)
    stores = await started(tmp_path)
    assert stores.runs is not None
    left = iter(range(writes))

    class Failing:
        def __init__(self, store: run_numbers.Numbered) -> None:
            self._store = store

        async def last_run(self) -> int:
            return await self._store.last_run()

        async def note_run(self, number: int) -> None:
            if next(left, None) is None:
                raise StoreUnavailable("the power is gone")
            await self._store.note_run(number)

    found = numbered(Config(), stores.rows, stores.meta)
    runs = RunNumbers(tmp_path, {name: Failing(store) for name, store in found.items()})
    if writes < 3:
        monkeypatch.setattr(run_numbers, "write_run", lambda *_: None)
    if stop:
        await runs.check()
        await runs.end()
    elif writes < 2:
        with pytest.raises(StoreUnavailable):
            await runs.begin()
    else:
        await runs.begin()
    await stores.rows.close()
    await stores.meta.close()
    await stores.files.close()
    monkeypatch.undo()
    await run_once(tmp_path)
    first, second, third = await numbers(tmp_path)
    assert first == second == third - 1


async def test_a_damaged_number_is_refused(tmp_path: Path) -> None:
    await run_once(tmp_path)
    path = tmp_path / "run.json"
    sound = path.read_text()
    for content in (sound.replace('"run": 2', '"run": 3'), "", sound[:-1]):
        path.write_text(content)
        with pytest.raises(ConfigError, match=r"cannot read .*run\.json.*; delete it if"):
            await started(tmp_path)


async def test_copies_of_a_running_server_that_was_restarted_meanwhile_are_taken(
    tmp_path: Path,
) -> None:
    """As a backup makes them; a restored directory has no run.json."""
    data, restored = tmp_path / "data", tmp_path / "restored"
    for path in (data, restored):
        path.mkdir()
    await run_once(data)
    copy_database(data / ROWS_FILE, restored / ROWS_FILE)
    await run_once(data)
    copy_database(data / META_FILE, restored / META_FILE)
    await run_once(restored)
    first, second, third = await numbers(restored)
    assert first == second == third - 1 > 2


async def test_two_starts_that_are_interrupted_are_no_older_file(tmp_path: Path) -> None:
    """Each was killed after it had written its number to the rows."""

    class File:
        def __init__(self, run: int) -> None:
            self.run, self.full = run, False

        async def last_run(self) -> int:
            return self.run

        async def note_run(self, number: int) -> None:
            if self.full:
                raise StoreUnavailable("killed")
            self.run = number

    rows, meta = File(0), File(0)
    await RunNumbers(tmp_path, {"rows": rows, "meta": meta}).begin()
    meta.full = True
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await RunNumbers(tmp_path, {"rows": rows, "meta": meta}).begin()
    assert (rows.run, meta.run) == (2, 1)
    meta.full = False
    await RunNumbers(tmp_path, {"rows": rows, "meta": meta}).begin()
    assert (rows.run, meta.run, read_run(tmp_path)) == (2, 2, 2)
