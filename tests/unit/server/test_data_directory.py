"""The data directory: lock, format, keys."""

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from opentalos.model.errors import ConfigError, NewerFormat
from opentalos.server.data_directory import (
    SERVER_KEY_BYTES,
    DataDirectory,
    parse_key,
    read_root_key,
    write_atomically,
)


class CountingClock:
    """Tokens that differ, without randomness."""

    def __init__(self) -> None:
        self.tokens = 0

    def wall_ms(self) -> int:
        return 0

    def token(self, bytes_count: int) -> bytes:
        self.tokens += 1
        return bytes([self.tokens]) * bytes_count


@pytest.fixture
def clock() -> CountingClock:
    return CountingClock()


def test_a_second_server_is_refused_with_the_first_ones_pid(
    tmp_path: Path, clock: CountingClock
) -> None:
    first = DataDirectory(tmp_path / "data", clock)
    with pytest.raises(ConfigError, match=f"the server with pid {os.getpid()} uses it"):
        DataDirectory(tmp_path / "data", clock)
    first.close()
    DataDirectory(tmp_path / "data", clock).close()


def test_deleting_the_lock_file_does_not_admit_another_server(
    tmp_path: Path, clock: CountingClock
) -> None:
    first = DataDirectory(tmp_path, clock)
    (tmp_path / "lock").unlink()
    with pytest.raises(ConfigError, match="the server with pid unknown uses it"):
        DataDirectory(tmp_path, clock)
    first.close()


def test_keys_and_identity_last_and_are_private(tmp_path: Path, clock: CountingClock) -> None:
    first = DataDirectory(tmp_path, clock)
    key, root, server = first.server_key(), first.root_key(), first.server
    first.close()
    second = DataDirectory(tmp_path, clock)
    assert (second.server_key(), second.root_key(), second.server) == (key, root, server)
    assert len(key) == SERVER_KEY_BYTES
    for name in ("server.key", "root.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert read_root_key(tmp_path / "root.key") == root
    second.close()


def test_a_lost_server_key_is_not_replaced_while_there_is_data(
    tmp_path: Path, clock: CountingClock
) -> None:
    directory = DataDirectory(tmp_path, clock)
    (tmp_path / "meta.sqlite").touch()
    with pytest.raises(ConfigError, match="restore it from a key file"):
        directory.server_key()
    directory.close()


def test_a_damaged_server_key_is_refused(tmp_path: Path, clock: CountingClock) -> None:
    directory = DataDirectory(tmp_path, clock)
    (tmp_path / "server.key").write_text("c2hvcnQ=")
    with pytest.raises(ConfigError, match="has 5 bytes"):
        directory.server_key()
    directory.close()


def test_a_newer_format_is_refused_and_left_alone(tmp_path: Path, clock: CountingClock) -> None:
    text = json.dumps({"version": 99, "server": "s"})
    (tmp_path / "format.json").write_text(text)
    with pytest.raises(NewerFormat, match="has format 99"):
        DataDirectory(tmp_path, clock)
    assert (tmp_path / "format.json").read_text() == text


def test_data_without_a_format_file_is_refused(tmp_path: Path, clock: CountingClock) -> None:
    (tmp_path / "meta.sqlite").touch()
    with pytest.raises(ConfigError, match=r"format\.json is missing"):
        DataDirectory(tmp_path, clock)


def test_an_unusable_directory_is_a_configuration_error(
    tmp_path: Path, clock: CountingClock
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot use data directory"):
        DataDirectory(tmp_path / "file", clock)


def test_server_json_lives_as_long_as_the_server(tmp_path: Path, clock: CountingClock) -> None:
    directory = DataDirectory(tmp_path, clock)
    directory.write_server_json({"pid": 1})
    assert json.loads((tmp_path / "server.json").read_text()) == {"pid": 1}
    directory.close()
    directory.close()
    assert not (tmp_path / "server.json").exists()


def test_a_file_is_replaced_whole_even_over_a_leftover(tmp_path: Path) -> None:
    (tmp_path / "a.new").write_text("left by a crash")
    write_atomically(tmp_path / "a", b"one")
    write_atomically(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert not (tmp_path / "a.new").exists()


@pytest.mark.parametrize("text", ["", "a", ":b", "a:", "a#b:c", "a:b\nc"])
def test_an_invalid_key_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_key(text, "--root-key")
    assert str(caught.value) == "--root-key must be ID:SECRET, where the ID has neither # nor :"


def test_a_directory_that_was_there_before_becomes_private(
    tmp_path: Path, clock: CountingClock, caplog: pytest.LogCaptureFixture
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    DataDirectory(data, clock).close()
    data.chmod(0o755)
    for name in ("format.json", "lock"):
        (data / name).chmod(0o644)
    (data / "notes.txt").touch()
    (data / "notes.txt").chmod(0o644)
    caplog.clear()
    former = os.umask(0)
    try:
        directory = DataDirectory(data, clock)
        directory.write_server_json({"pid": 1})
    finally:
        os.umask(former)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (data, *data.iterdir())}
    directory.close()
    assert modes.pop("data") == 0o700
    assert modes.pop("notes.txt") == 0o644  # not the server's
    assert set(modes.values()) == {0o600}
    assert set(modes) == {"format.json", "lock", "server.json"}
    (line,) = caplog.messages
    assert line.startswith("other users of this machine could use files of the server")


def test_a_directory_that_users_share_is_no_data_directory(
    tmp_path: Path, clock: CountingClock
) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    with pytest.raises(ConfigError, match="name a directory of its own"):
        DataDirectory(tmp_path / "shared", clock)
    assert list((tmp_path / "shared").iterdir()) == []


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """Files and directories that were synced."""
    found: set[Path] = set()
    fsync = os.fsync

    def record(fd: int) -> None:
        fsync(fd)
        found.add(Path(f"/proc/self/fd/{fd}").readlink())

    monkeypatch.setattr(os, "fsync", record)
    return found


def test_the_entry_of_a_new_data_directory_and_its_parents_is_durable(
    tmp_path: Path, clock: CountingClock, synced: set[Path]
) -> None:
    DataDirectory(tmp_path / "a" / "b" / "data", clock).close()
    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b"} <= synced


def test_a_start_makes_durable_what_one_before_it_made_and_could_not_sync(
    tmp_path: Path, clock: CountingClock, synced: set[Path]
) -> None:
    (tmp_path / "a" / "data").mkdir(parents=True)
    DataDirectory(tmp_path / "a" / "data", clock).close()
    assert {tmp_path, tmp_path / "a"} <= synced


def test_a_parent_whose_file_system_syncs_no_directories_is_no_obstacle(
    tmp_path: Path, clock: CountingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def refuse(fd: int) -> None:
        if os.path.samestat(os.fstat(fd), tmp_path.stat()):
            raise OSError(errno.EINVAL, "no sync of directories")
        fsync(fd)

    monkeypatch.setattr(os, "fsync", refuse)
    DataDirectory(tmp_path / "data", clock).close()


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, content: write(fd, content[:2]))
    write_atomically(tmp_path / "a", b"hello")
    assert (tmp_path / "a").read_bytes() == b"hello"


def test_a_full_disk_is_named_and_the_old_content_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_fd: int, _content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    write_atomically(tmp_path / "a", b"old")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(ConfigError, match="No space left on device"):
        write_atomically(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
