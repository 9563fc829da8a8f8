"""Where ``talos serve`` takes the key of the first administrator from."""

import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opentalos.cli.commands.server.serve import ROOT_KEY_VARIABLE, serve
from opentalos.server import lifecycle


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The root keys of the servers that were run."""
    found: list[Any] = []
    monkeypatch.setattr(lifecycle, "run_server", lambda _config, key, _ready: found.append(key))
    monkeypatch.delenv(ROOT_KEY_VARIABLE, raising=False)
    return found


def run(*arguments: str) -> Result:
    return CliRunner().invoke(serve, arguments)


def test_a_key_on_the_command_line_works_and_warns_without_showing_it(keys: list[Any]) -> None:
    done = run("--root-key", "ROOT:the-secret")
    assert keys == [("ROOT", "the-secret")]
    assert done.stdout == ""
    assert "--root-key-file" in done.stderr
    assert "the-secret" not in done.stderr


def test_a_key_from_a_file_does_not_warn(keys: list[Any], tmp_path: Path) -> None:
    (tmp_path / "key").write_text("ROOT:the-secret\n")
    done = run("--root-key-file", str(tmp_path / "key"))
    assert (keys, done.stderr) == ([("ROOT", "the-secret")], "")


def test_a_key_from_the_environment_is_not_left_there(
    keys: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ROOT_KEY_VARIABLE, "ROOT:the-secret")
    done = run()
    assert (keys, done.stderr) == ([("ROOT", "the-secret")], "")
    assert ROOT_KEY_VARIABLE not in os.environ


def test_no_key_is_none_and_two_are_refused(keys: list[Any], tmp_path: Path) -> None:
    run()
    assert keys == [None]
    (tmp_path / "key").write_text("ROOT:the-secret\n")
    done = run("--root-key", "a:b", "--root-key-file", str(tmp_path / "key"))
    assert done.exit_code == 2
    assert keys == [None]
