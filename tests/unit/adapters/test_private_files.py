"""Files that only their owner may read."""

import os
import stat
from pathlib import Path

import pytest

from opentalos.adapters.private_files import (
    create_private,
    make_private,
    private_opener,
    read_credential,
    readable_by_others,
)
from opentalos.adapters.sqlite import open_sqlite_meta_store
from opentalos.model.errors import ConfigError


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_rights_of_others_are_taken_and_reported_once(tmp_path: Path) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.touch(0o644)
    folder.mkdir(0o755)
    assert make_private(file)
    assert make_private(folder)
    assert (mode_of(file), mode_of(folder)) == (0o600, 0o700)
    assert not make_private(file)
    assert not make_private(folder)


def test_links_and_absent_paths_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0o644)
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert not make_private(tmp_path / "link")
    assert not make_private(tmp_path / "absent")
    assert mode_of(tmp_path / "file") == 0o644


def test_what_belongs_to_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 4711)
    with pytest.raises(ConfigError, match="belongs to user"):
        make_private(tmp_path)


def test_a_directory_that_users_share_is_refused_and_unchanged(tmp_path: Path) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(ConfigError, match="other users have files in it"):
        make_private(shared)
    assert mode_of(shared) == 0o1777


def test_new_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        create_private(tmp_path / "made")
        with open(tmp_path / "opened", "ab", opener=private_opener) as file:
            file.write(b"x")
    finally:
        os.umask(former)
    assert {mode_of(path) for path in tmp_path.iterdir()} == {0o600}


def test_an_existing_file_keeps_its_content(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("content")
    create_private(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "content"


def modes_in(folder: Path) -> dict[str, int]:
    return {found.name: found.stat().st_mode & 0o777 for found in folder.iterdir()}


async def test_a_database_its_log_and_index_are_private(tmp_path: Path) -> None:
    """Also those that an earlier version left readable by others."""
    former = os.umask(0)
    try:
        path = tmp_path / "meta.sqlite"
        path.touch()
        path.chmod(0o644)
        store = await open_sqlite_meta_store(path)
        await store.create("a", b"")
        modes = modes_in(tmp_path)
        await store.close()
    finally:
        os.umask(former)
    assert modes == dict.fromkeys(("meta.sqlite", "meta.sqlite-shm", "meta.sqlite-wal"), 0o600)


def test_a_credential_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "auth"
    path.write_text("digest:talos:secret\n")
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="other users can read"):
        read_credential(path)
    path.chmod(0o600)
    assert read_credential(path) == "digest:talos:secret"
    with pytest.raises(ConfigError, match="cannot read"):
        read_credential(tmp_path / "absent")


@pytest.mark.parametrize(
    ("mode", "owner", "user", "others"),
    [
        (0o600, 10001, 10001, False),
        (0o440, 0, 10001, False),  # as Kubernetes mounts a secret for a group
        (0o640, 0, 10001, False),
        (0o660, 0, 10001, True),
        (0o444, 0, 10001, True),
        (0o440, 0, 0, True),  # who reads it as root could make it 0400
        (0o440, 10001, 10001, True),
        (0o440, 20002, 10001, True),
    ],
)
def test_a_credential_of_root_may_be_readable_by_a_group(
    mode: int, owner: int, user: int, others: bool
) -> None:
    assert readable_by_others(mode, owner, user) is others
