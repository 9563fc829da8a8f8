"""The data directory: lock, format, keys."""

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
    with pytest.raises(ConfigError, match="restore it from a backup"):
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
