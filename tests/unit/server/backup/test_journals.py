"""Copies of journals are such that a recovery can read them, whatever their server does."""

from collections.abc import Callable
from pathlib import Path

import pytest

from opentalos.log.journal.format import ended_path, file_path
from opentalos.model.errors import StoreUnavailable
from opentalos.server.backup import journals as journals_module
from opentalos.server.backup.folder import Copied, copy_file
from opentalos.server.backup.journals import copy_journals

NAME = "abc-1"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return tmp_path / "log"


def write(files: Path, path: str, content: bytes = b"content") -> None:
    (files / path).parent.mkdir(parents=True, exist_ok=True)
    (files / path).write_bytes(content)


def before_copies(monkeypatch: pytest.MonkeyPatch, step: Callable[[str], None]) -> list[str]:
    """Call ``step`` before each copy; the names of the files that were copied."""
    copied: list[str] = []

    def copy(source: Path, target: Path, length: int | None = None) -> Copied:
        step(source.name)
        done = copy_file(source, target, length)
        copied.append(source.name)
        return done

    monkeypatch.setattr(journals_module, "copy_file", copy)
    return copied


def test_all_files_of_all_journals_are_copied(files: Path, tmp_path: Path) -> None:
    write(files, file_path(NAME, 1))
    write(files, file_path(NAME, 2), b"more")
    write(files, ended_path("abc-2"), b"")
    found = copy_journals(files, tmp_path / "copy")
    assert {path: copied.bytes for path, copied in found.items()} == {
        file_path(NAME, 1): 7,
        file_path(NAME, 2): 4,
        ended_path("abc-2"): 0,
    }
    assert (tmp_path / "copy" / file_path(NAME, 2)).read_bytes() == b"more"


def test_there_may_be_no_journal(files: Path, tmp_path: Path) -> None:
    assert copy_journals(files, tmp_path / "copy") == {}


def test_a_journal_that_continues_meanwhile_is_copied_from_its_newest_file(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(files, file_path(NAME, 1))
    write(files, file_path(NAME, 2))

    def step(name: str) -> None:
        if name == "00000002.jnl":
            write(files, file_path(NAME, 3))

    copied = before_copies(monkeypatch, step)
    found = copy_journals(files, tmp_path / "copy")
    assert sorted(found) == [file_path(NAME, number) for number in (1, 2, 3)]
    assert copied == ["00000002.jnl", "00000003.jnl", "00000002.jnl", "00000001.jnl"]


@pytest.mark.parametrize("gone", [1, 2])
def test_what_is_trimmed_meanwhile_is_left_out_and_the_newest_says_so(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    for number in (1, 2, 3):
        write(files, file_path(NAME, number))

    def step(name: str) -> None:
        path = files / file_path(NAME, gone)
        if copied and path.exists():
            write(files, file_path(NAME, 3), b"says that it is needed no more")
            path.unlink()

    copied = before_copies(monkeypatch, step)
    found = copy_journals(files, tmp_path / "copy")
    assert copied.count("00000003.jnl") == 2
    assert file_path(NAME, gone) not in found
    assert found[file_path(NAME, 3)].bytes == len("says that it is needed no more")


def test_the_file_before_the_newest_is_copied_again(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next file is made before it says so."""
    for number in (1, 2, 3):
        write(files, file_path(NAME, number))

    def step(name: str) -> None:
        path = files / file_path(NAME, 1)
        if name == path.name and path.exists():
            write(files, file_path(NAME, 2), b"content, and what follows")
            path.unlink()

    before_copies(monkeypatch, step)
    found = copy_journals(files, tmp_path / "copy")
    assert found[file_path(NAME, 2)].bytes == len("content, and what follows")


def test_a_journal_that_ends_meanwhile_is_copied_as_ended(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(files, file_path(NAME, 1))

    def step(name: str) -> None:
        if name == "00000001.jnl":
            write(files, ended_path(NAME), b"")
            (files / file_path(NAME, 1)).unlink()

    before_copies(monkeypatch, step)
    assert list(copy_journals(files, tmp_path / "copy")) == [ended_path(NAME)]


def test_a_journal_that_never_stands_still_is_an_error(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(files, file_path(NAME, 1))
    number = 1

    def step(name: str) -> None:
        nonlocal number
        number += 1
        write(files, file_path(NAME, number))

    before_copies(monkeypatch, step)
    with pytest.raises(StoreUnavailable, match=NAME):
        copy_journals(files, tmp_path / "copy")
