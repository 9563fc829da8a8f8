"""The list of a backup is believed only as far as it can be checked; folders appear whole."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from opentalos.model.errors import (
    ConfigError,
    CorruptLog,
    NewerFormat,
    StorageFull,
    StoreUnavailable,
)
from opentalos.server.backup.folder import (
    LIST_FILE,
    Copied,
    copy_file,
    digest_of,
    new_folder,
    read_contents,
    write_contents,
)

ONE = {"bytes": 1, "sha256": "aa"}


def listed(folder: Path, **changes: Any) -> Path:
    """A folder whose list has these fields."""
    record = {"format": "opentalos-backup", "version": 1, "files": {"a": ONE}, **changes}
    (folder / LIST_FILE).write_text(json.dumps(record))
    return folder


def test_a_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    contents = {"log/b": Copied(2, "bb"), "a": Copied(1, "aa")}
    write_contents(tmp_path, contents, "check")
    assert read_contents(tmp_path) == (contents, "check")


def test_a_list_of_the_first_format_has_no_key_check(tmp_path: Path) -> None:
    assert read_contents(listed(tmp_path)) == ({"a": Copied(1, "aa")}, "")


@pytest.mark.parametrize("path", ["../a", "/etc/passwd", "log/../../a", ""])
def test_a_list_that_names_other_places_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(CorruptLog, match="outside the backup"):
        read_contents(listed(tmp_path, files={path: ONE}))


@pytest.mark.parametrize(
    "changes",
    [
        {"files": {"a": {"bytes": 1}}},
        {"files": {"a": {"bytes": "1", "sha256": ""}}},
        {"files": {"a": {"bytes": -1, "sha256": ""}}},
        {"files": [1]},
        {"version": "x"},
        {"version": 2},
        {"files": None},
    ],
)
def test_a_damaged_list_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(CorruptLog, match="cannot read"):
        read_contents(listed(tmp_path, **changes))


@pytest.mark.parametrize("path", ["a\0b", "./a", "a//b", "a/", "log/./a"])
def test_a_list_with_a_path_that_no_server_writes_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(CorruptLog, match="not a valid path"):
        read_contents(listed(tmp_path, files={path: ONE}))


def test_no_link_of_a_backup_is_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a").write_text("secret")
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "log").symlink_to(tmp_path / "outside")
    (copy / "a").symlink_to(tmp_path / "outside" / "a")
    for path in ("log/a", "a"):
        with pytest.raises(CorruptLog, match="is a link"):
            read_contents(listed(copy, files={path: ONE}))
    with pytest.raises(OSError, match="symbolic links"):
        copy_file(copy / "a", tmp_path / "target")


def test_no_pipe_or_device_of_a_backup_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for source in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(OSError, match="not a regular file"):
            copy_file(source, tmp_path / "target", 1)
    assert not (tmp_path / "target").exists()


def test_an_invalid_backup_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a backup"):
        read_contents(tmp_path)
    with pytest.raises(ConfigError, match="not the list of a backup"):
        read_contents(listed(tmp_path, format="other"))
    with pytest.raises(NewerFormat):
        read_contents(listed(tmp_path, version=3))


def test_a_copy_ends_at_the_given_length_and_has_its_checksum(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "deep" / "target"
    source.write_bytes(b"x" * 3_000_000)
    source.chmod(0o644)
    copied = copy_file(source, target, 2_500_000)
    assert target.read_bytes() == b"x" * 2_500_000
    assert copied == digest_of(target)
    assert target.stat().st_mode & 0o777 == 0o600
    assert copy_file(source, target).bytes == 3_000_000
    with pytest.raises(FileNotFoundError):
        copy_file(tmp_path / "absent", target)


@pytest.mark.parametrize(
    ("number", "wanted"), [(errno.ENOSPC, StorageFull), (errno.EIO, StoreUnavailable)]
)
def test_a_failure_leaves_no_folder(
    tmp_path: Path, number: int, wanted: type[StoreUnavailable]
) -> None:
    def fill() -> None:
        with new_folder(tmp_path / "target") as folder:
            (folder / "half").write_text("x")
            raise OSError(number, "disk")

    with pytest.raises(wanted):
        fill()
    assert list(tmp_path.iterdir()) == []


def test_only_an_empty_folder_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    with new_folder(target) as folder:
        (folder / "a").write_text("x")
        assert list(target.iterdir()) == []
    assert (target / "a").read_text() == "x"
    with pytest.raises(ConfigError, match="already exists"), new_folder(target):
        pass
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError), new_folder(link):
        pass
