"""The command without a server: command groups, exit statuses, error lines."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from opentalos.cli import main as entry
from opentalos.cli.main import talos


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(talos, arguments)
    return done.exit_code, done.output


def test_help_names_every_command() -> None:
    status, text = run("--help")
    assert status == 0
    for name in ("serve", "config", "user", "key"):
        assert f"  {name} " in text


def test_config_show_prints_a_valid_file(tmp_path: Path) -> None:
    status, text = run("config", "show")
    assert status == 0
    path = tmp_path / "talos.toml"
    path.write_text(text)
    assert run("config", "check", str(path)) == (0, f"{path}: ok\n")
    assert run("config", "show", str(path)) == (0, text)


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["config", "check", "no-such-file"], 1, "talos: cannot read no-such-file"),
        (["nonsense"], 2, "No such command 'nonsense'.\n"),
        (["prodcue", "t"], 2, "No such command 'prodcue'. Did you mean 'produce'?\n"),
        (["Topic"], 2, "No such command 'Topic'. Did you mean 'topic'?\n"),
        (["--versoin"], 2, "No such option"),
        (["config", "check"], 2, "Missing argument"),
        (["user", "list", "--data", "no-such-dir"], 1, "no server is running on no-such-dir"),
        (["user", "list", "--url", "http://127.0.0.1:1", "--as", "secret"], 1, "ID:SECRET"),
    ],
)
def test_errors_are_lines_and_exit_codes(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    status: int,
    says: str,
) -> None:
    monkeypatch.setattr("sys.argv", ["talos", *arguments])
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == status
    shown = capsys.readouterr()
    assert says in shown.err
    assert "Traceback" not in shown.err


def test_each_problem_has_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "talos.toml"
    path.write_text("[server]\nlistn = 'x'\n[nonsense]\n")
    monkeypatch.setattr("sys.argv", ["talos", "config", "check", str(path)])
    with pytest.raises(SystemExit) as caught:
        entry.main()
    assert caught.value.code == 1
    key, section = capsys.readouterr().err.splitlines()
    assert key.startswith(f"talos: {path}: ")
    assert "listn" in key
    assert section.startswith(f"talos: {path}: ")
    assert "nonsense" in section


def test_an_unreadable_server_json_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "server.json").write_text(json.dumps([]))
    monkeypatch.setattr("sys.argv", ["talos", "user", "list", "--data", str(tmp_path)])
    with pytest.raises(SystemExit):
        entry.main()
    assert "server.json: " in capsys.readouterr().err


def test_a_missing_key_file_names_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:1"}))
    monkeypatch.setattr("sys.argv", ["talos", "cluster", "status", "--data", str(tmp_path)])
    with pytest.raises(SystemExit):
        entry.main()
    assert "root.key: No such file or directory; pass --as ID:SECRET" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fetch", "start", "stop", "status"])
def test_help_of_backends_names_their_kinds(command: str) -> None:
    status, text = run("backend", command, "--help")
    assert status == 0
    assert all(kind in text for kind in ("hdfs|zookeeper|hbase", "all}..."))


def test_an_environment_with_the_sdk_alone_says_what_a_server_needs(tmp_path: Path) -> None:
    """In a process of its own, since here everything is loaded."""
    program = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('httptools', 'jinja2', 'jwt', 'prometheus_client', 'psutil'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from opentalos.cli.main import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", program, "serve"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=tmp_path)
    shown = r"talos: this command needs \w+, which is not installed: pip install opentalos, .*\n"
    assert re.fullmatch(shown, done.stderr), done.stderr
    assert done.returncode == 1
