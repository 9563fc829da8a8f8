"""Where ``talos serve`` takes the key of the first administrator from, and what it says first."""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from opentalos.cli.commands.server.serve import ROOT_KEY_VARIABLE, first_steps, serve
from opentalos.cli.main import talos
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


def test_the_first_start_in_a_terminal_shows_how_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_server(config: Any, _key: Any, ready: Callable[[str], None]) -> None:
        Path(config.server.data, "root.key").write_text("ROOT:the-secret\n")
        ready("http://127.0.0.1:9420")

    monkeypatch.setattr(lifecycle, "run_server", run_server)
    assert run("--data", str(tmp_path)).stderr == ""  # no terminal: nobody types commands
    (tmp_path / "root.key").unlink()
    monkeypatch.setattr("opentalos.cli.commands.server.serve.on_terminal", lambda: True)
    first, second = run("--data", str(tmp_path)), run("--data", str(tmp_path))
    assert (first.stdout, second.stdout) == ("ready http://127.0.0.1:9420\n",) * 2
    assert f"talos topic create first --data {tmp_path}\n" in first.stderr
    assert "the-secret" not in first.stderr
    assert second.stderr == ""


@pytest.mark.parametrize("text", [first_steps(Path("talos-data")), str(talos.help)])
def test_the_first_steps_are_commands_that_exist(text: str) -> None:
    named = r"(?:^ +|\| )talos ((?:topic|produce|consume|user) .+)$"
    found = re.findall(named, text.partition("To begin")[2].partition("\n\n")[0], re.MULTILINE)
    assert [line.split()[0] for line in found][:3] == ["topic", "produce", "consume"]
    for line in found:
        command: click.Command | None = talos
        words = line.split()
        while isinstance(command, click.Group):
            command = command.get_command(click.Context(command), words.pop(0))
        assert command is not None
        assert command.make_context("talos", words).params["url"] is None
