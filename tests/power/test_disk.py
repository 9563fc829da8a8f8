"""The recorder and the rules of the disk, on programs of a few calls."""

import os
import sys
from pathlib import Path
from random import Random

import pytest
from tests.accelerator import KINDS
from tests.power.disk import Before, Disk, NothingKept, check_complete, write_directory
from tests.power.journal import read_journal, recorder_environment, recorder_library
from tests.waiting import completed

SEEDS = 300
PROGRAM = """
import mmap, os, sys
os.chdir(sys.argv[1])
def make(name, content, sync=False, entry=False, flags=0):
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    os.pwritev(fd, [content], 0, flags)
    if sync:
        os.fdatasync(fd)
    if entry:
        sync_folder(os.path.dirname(name) or ".")
    return fd
def sync_folder(name):
    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)
"""
COMMITS = """
import asyncio
from pathlib import Path
from opentalos.adapters.local import LocalFileStore
from opentalos.model.message import Durability
async def main():
    store = LocalFileStore(Path(sys.argv[1]), accelerator="KIND")
    file = await store.create("t/0", durability=Durability.SYNCED)
    await file.commit([b"a" * 4, b"a" * 6])
    await file.commit([b"b" * 90_000])
    await store.close()
asyncio.run(main())
"""


def recorded(tmp_path: Path, program: str) -> Disk:
    """Run a program on the directory ``root``; what the recorder saw of it."""
    root, journal = tmp_path / "root", tmp_path / "journal"
    root.mkdir(exist_ok=True)
    journal.unlink(missing_ok=True)
    before = Before(root)
    environment = recorder_environment(recorder_library(), root, journal)
    completed(
        [sys.executable, "-c", PROGRAM + program, str(root)],
        env={**os.environ, **environment},
        check=True,
    )
    disk = Disk(before).replay(read_journal(journal))
    check_complete(disk, root)
    return disk


def outcomes(disk: Disk, name: str) -> set[bytes | None]:
    """What cuts leave of a file; None: no file."""
    return {disk.after_a_cut(Random(seed)).get(name) for seed in range(SEEDS)}


def test_what_is_synced_with_its_entry_is_left_by_every_cut(tmp_path: Path) -> None:
    disk = recorded(tmp_path, "make('a', b'kept', sync=True, entry=True)")
    assert outcomes(disk, "a") == {b"kept"}
    assert disk.after_a_cut(NothingKept()) == {"a": b"kept"}


def test_a_synced_file_without_its_entry_may_be_lost(tmp_path: Path) -> None:
    disk = recorded(tmp_path, "make('a', b'kept', sync=True)")
    assert outcomes(disk, "a") == {b"kept", None}


def test_a_synced_entry_in_a_directory_without_one_may_be_lost(tmp_path: Path) -> None:
    disk = recorded(tmp_path, "os.mkdir('d'); make('d/a', b'kept', sync=True, entry=True)")
    assert outcomes(disk, "d/a") == {b"kept", None}


def test_any_pages_of_an_unsynced_write_may_be_lost(tmp_path: Path) -> None:
    disk = recorded(tmp_path, "make('a', b'x' * 1024, entry=True)")
    found = outcomes(disk, "a")
    assert {b"", b"x" * 1024, b"x" * 512, bytes(512) + b"x" * 512, bytes(1024)} <= found
    assert disk.after_a_cut(NothingKept()) == {"a": b""}


def test_a_sector_is_as_it_was_at_one_moment(tmp_path: Path) -> None:
    program = "fd = make('a', b'old!', sync=True, entry=True)\nfor part in (b'1', b'2', b'3'):"
    program += " os.pwrite(fd, part, int(part))"
    disk = recorded(tmp_path, program)
    assert outcomes(disk, "a") == {b"old!", b"o1d!", b"o12!", b"o123"}


def test_a_write_with_rwf_dsync_is_durable_and_no_other_is(tmp_path: Path) -> None:
    program = "fd = make('a', b'a' * 512, entry=True); os.pwritev(fd, [b'b'], 512, os.RWF_DSYNC)"
    disk = recorded(tmp_path, program)
    assert outcomes(disk, "a") == {b"a" * 512 + b"b", bytes(512) + b"b"}


@pytest.mark.parametrize("accelerator", KINDS)
def test_commits_of_every_kind_of_thread_are_recorded(tmp_path: Path, accelerator: str) -> None:
    """Small ones are their own sync, large ones are synced after the write, so no cut takes any."""
    disk = recorded(tmp_path, COMMITS.replace("KIND", accelerator))
    expected = b"a" * 10 + b"b" * 90_000
    assert disk.after_a_cut(NothingKept())["t/0"] == expected
    assert {disk.after_a_cut(Random(seed)).get("t/0") for seed in range(20)} == {expected}


def test_a_file_that_was_replaced_unsynced_may_be_either_or_empty(tmp_path: Path) -> None:
    recorded(tmp_path, "make('a', b'old', sync=True, entry=True)")
    disk = recorded(tmp_path, "make('a.new', b'new'); os.rename('a.new', 'a')")
    assert outcomes(disk, "a") == {b"old", b"new", b"", bytes(3)}


def test_a_truncation_keeps_its_place_among_writes(tmp_path: Path) -> None:
    recorded(tmp_path, "make('a', b'old', sync=True, entry=True)")
    disk = recorded(tmp_path, "fd = make('a', b''); os.ftruncate(fd, 0); os.pwrite(fd, b'n', 0)")
    assert b"nld" not in outcomes(disk, "a")
    assert {b"old", b"n", b""} <= outcomes(disk, "a")


def test_a_directory_is_written_as_a_cut_left_it(tmp_path: Path) -> None:
    disk = recorded(tmp_path, "os.mkdir('d'); make('d/a', b'1', sync=True, entry=True)")
    write_directory(tmp_path / "root", {"e": None, "e/b": b"2"})
    assert sorted(path.name for path in (tmp_path / "root").rglob("*")) == ["b", "e"]
    with pytest.raises(AssertionError, match="not recorded"):
        check_complete(disk, tmp_path / "root")


def test_a_file_written_through_memory_is_refused(tmp_path: Path) -> None:
    program = "fd = make('a', b'1234'); mmap.mmap(fd, 4)[0] = 50"
    with pytest.raises(AssertionError, match="not recorded"):
        recorded(tmp_path, program)
