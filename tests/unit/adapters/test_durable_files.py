"""What is durable on macOS: its fsync stops at the drive's cache, F_FULLFSYNC does not."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from opentalos.adapters import durable_files
from opentalos.adapters.durable_files import make_directories, replace_file, sync_directory
from opentalos.adapters.local import disk
from opentalos.adapters.local.disk import delete_file, recover_file, write_at
from opentalos.pipelines.lake.durable_files import write_json
from opentalos.server.backup.folder import copy_file

F_FULLFSYNC = 51  # on macOS; no command of Linux


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what was synced, on a macOS whose other syncs fail."""
    found: list[str] = []

    def control(fd: int, command: int, argument: int = 0) -> int:
        assert (command, argument) == (F_FULLFSYNC, 0)
        found.append(os.readlink(f"/proc/self/fd/{fd}").rpartition("/")[2])
        return 0

    def weak(_fd: int) -> None:
        raise AssertionError("a sync that stops at the drive's cache")

    monkeypatch.setattr(durable_files, "_F_FULLFSYNC", F_FULLFSYNC)
    monkeypatch.setattr(disk, "_HAS_FDATASYNC", False)
    monkeypatch.setattr(disk, "_RWF_DSYNC", 0)
    monkeypatch.setattr(fcntl, "fcntl", control)
    monkeypatch.setattr(os, "fsync", weak)
    monkeypatch.setattr(os, "fdatasync", weak)
    return found


def commit(folder: Path) -> None:
    fd = os.open(folder / "file", os.O_WRONLY)
    try:
        assert write_at(fd, [b"ab", b"c"], 0, synced=True) == 3
    finally:
        os.close(fd)


def back_up(folder: Path) -> None:
    copy_file(folder / "file", folder / "copy")
    assert (folder / "copy").read_bytes() == b"xyz"


@pytest.mark.parametrize(
    ("act", "wanted"),
    [
        (commit, ["file"]),
        (lambda folder: recover_file(folder / "file", "0", 0.0), ["folder", "file", "file.fenced"]),
        (lambda folder: delete_file(folder / "file"), ["folder", "folder"]),
        (lambda folder: replace_file(folder / "new", b"x", 0o600), ["new.new", "folder"]),
        (lambda folder: make_directories(folder / "a" / "b"), ["folder", "a"]),
        (sync_directory, ["folder"]),
        (back_up, ["copy"]),
        (lambda folder: write_json(folder / "new", {}), ["new.new", "folder"]),
    ],
)
def test_nothing_stays_in_the_drives_cache_on_macos(
    tmp_path: Path, synced: list[str], act: Callable[[Path], object], wanted: list[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "file").write_bytes(b"xyz")
    act(folder)
    assert synced == wanted
