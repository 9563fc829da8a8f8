"""The keys of a backup are apart from it, and it says which belong to it."""

import base64
import stat
from pathlib import Path

import pytest

from opentalos.model.errors import ConfigError
from opentalos.server.backup.folder import copy_file, write_contents
from opentalos.server.backup.keys import BackupKeys, keys_of, read_key_file, write_key_file
from opentalos.server.backup.restore import restore_backup

KEY = bytes(range(32))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "server.key").write_bytes(base64.b64encode(KEY) + b"\n")
    (folder / "root.key").write_text("ROOT:secret\n")
    (folder / "format.json").write_text("{}")
    return folder


@pytest.fixture
def backup(tmp_path: Path, data: Path) -> Path:
    folder = tmp_path / "backup"
    copied = copy_file(data / "format.json", folder / "format.json")
    write_contents(folder, {"format.json": copied}, keys_of(data).check)
    return folder


def restored(backup: Path, target: Path, key_file: Path | None) -> None:
    restore_backup(backup, target, lambda done, total: None, key_file)


def test_a_key_file_brings_both_keys_back(data: Path, backup: Path, tmp_path: Path) -> None:
    write_key_file(tmp_path / "key", keys_of(data))
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert read_key_file(tmp_path / "key") == BackupKeys(KEY, b"ROOT:secret\n")
    restored(backup, tmp_path / "again", tmp_path / "key")
    for name in ("server.key", "root.key", "format.json"):
        assert (tmp_path / "again" / name).read_bytes() == (data / name).read_bytes()
        assert stat.S_IMODE((tmp_path / "again" / name).stat().st_mode) == 0o600


def test_the_server_key_of_the_data_directory_is_a_key_file(
    data: Path, backup: Path, tmp_path: Path
) -> None:
    restored(backup, tmp_path / "again", data / "server.key")
    assert (tmp_path / "again" / "server.key").read_bytes() == (data / "server.key").read_bytes()
    assert not (tmp_path / "again" / "root.key").exists()


def test_another_key_or_none_restores_nothing(backup: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not contain the server's key"):
        restored(backup, tmp_path / "again", None)
    write_key_file(tmp_path / "other", BackupKeys(bytes(32), b""))
    with pytest.raises(ConfigError, match="the key of another server"):
        restored(backup, tmp_path / "again", tmp_path / "other")
    assert not (tmp_path / "again").exists()


def test_a_backup_of_the_first_format_has_its_key(tmp_path: Path, data: Path) -> None:
    folder = tmp_path / "old"
    names = ("format.json", "server.key", "root.key")
    contents = {name: copy_file(data / name, folder / name) for name in names}
    write_contents(folder, contents, "")
    text = (folder / "backup.json").read_text()
    text = text.replace('"version": 2', '"version": 1').replace(' "key_check": "",', "")
    (folder / "backup.json").write_text(text)
    restored(folder, tmp_path / "again", None)
    assert (tmp_path / "again" / "server.key").read_bytes() == (data / "server.key").read_bytes()


def test_a_key_file_is_never_overwritten(tmp_path: Path, data: Path) -> None:
    (tmp_path / "key").touch()
    with pytest.raises(ConfigError, match="already exists"):
        write_key_file(tmp_path / "key", keys_of(data))


@pytest.mark.parametrize("content", [b"", b"not base64!", base64.b64encode(b"short")])
def test_what_is_no_key_file_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    with pytest.raises(ConfigError, match="key file"):
        read_key_file(tmp_path / "key")
