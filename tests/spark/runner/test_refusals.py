"""What is missing is one line that says what to do, before anything is waited for."""

import os
import subprocess
import sys
from pathlib import Path

from tests.server_process import TALOS

NOBODY = ("--url", "http://127.0.0.1:9", "--as", "A:secret-of-nobody")
RUN = ("pipeline", "run", "archive", "-o", "archive.topics=a", *NOBODY)
WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from opentalos.cli.main import main
main()
"""


def said(*command: str, **environment: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stdout == ""
    return done.stderr


def test_without_pyspark_the_extra_is_named(tmp_path: Path) -> None:
    output = said(sys.executable, "-c", WITHOUT_SPARK, *RUN, "--home", str(tmp_path))
    assert output == "talos: pipelines need PySpark: pip install 'opentalos[spark]'\n"


def test_without_java_the_remedy_is_named(tmp_path: Path) -> None:
    output = said(str(TALOS), *RUN, "--home", str(tmp_path), JAVA_HOME=str(tmp_path))
    assert output.startswith("talos: no java found; need Java 17 or newer; ")
    assert len(output.splitlines()) == 1
    assert not (tmp_path / "checkpoints").exists()
