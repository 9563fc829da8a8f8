"""``talos pipeline`` as spark-submit runs it."""

import runpy
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from opentalos.cli.main import talos
from opentalos.model.errors import ConfigError

KEY = "AK1:not-to-be-shown"
SERVER = ("--url", "http://127.0.0.1:1")


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a program of spark-submit."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")


def refused(*arguments: str) -> str:
    done = CliRunner().invoke(talos, ["pipeline", *arguments, *SERVER])
    assert isinstance(done.exception, ConfigError), done.output
    return str(done.exception)


def printed_path() -> Path:
    done = CliRunner().invoke(talos, ["pipeline", "submit-file"])
    assert done.exit_code == 0, done.output
    return Path(done.output.strip())


@pytest.mark.usefixtures("submitted")
def test_a_key_that_sparks_pages_would_show_is_refused() -> None:
    said = refused("run", "archive", "--as", KEY)
    assert "pass --key-file" in said
    assert "not-to-be-shown" not in said


@pytest.mark.usefixtures("submitted")
def test_a_submitted_run_is_not_supervised_from_inside(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(KEY)
    said = refused("supervise", "archive", "--key-file", str(tmp_path / "key"))
    assert "talos pipeline supervise --master URL" in said


def test_the_file_for_spark_submit_takes_the_arguments_of_talos_pipeline(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = printed_path()
    monkeypatch.setattr(sys, "argv", [str(path), "submit-file"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(path), run_name="__main__")
    assert end.value.code == 0
    assert capsys.readouterr().out.strip() == str(path)


def test_nothing_beside_that_file_hides_another_module() -> None:
    """Python imports from the folder of a program first."""
    beside = {path.name for path in printed_path().parent.glob("*.py")}
    assert beside == {"__init__.py", "talos_pipeline.py"}
