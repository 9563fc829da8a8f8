"""Options of ``talos migrate``."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from opentalos.cli.commands.topic.migrate import migrate

URLS = ("http://127.0.0.1:1", "http://127.0.0.1:2")
KEYS = {"TALOS_SOURCE_KEY": "A:secret", "TALOS_TARGET_KEY": "B:secret"}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the state file and its lock are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))


def run(*arguments: str, **environment: str) -> tuple[int, str]:
    done = CliRunner().invoke(migrate, arguments, env=environment)
    return done.exit_code, f"{done.output}{done.exception}"


@pytest.mark.parametrize("missing", KEYS)
def test_an_address_needs_a_key(missing: str) -> None:
    status, said = run(*URLS, **{name: key for name, key in KEYS.items() if name != missing})
    assert status == 2
    assert f"or {missing}" in said


def test_a_side_without_scheme_is_a_profile() -> None:
    status, said = run("old", URLS[1], **KEYS)
    assert status == 1
    assert "profile" in said


@pytest.mark.parametrize("other", ["--dry-run", "--follow"])
def test_a_check_copies_nothing(other: str) -> None:
    status, said = run(*URLS, "--check", other, **KEYS)
    assert status == 2
    assert "--check goes with neither" in said
