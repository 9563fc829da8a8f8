"""What is missing is one line that says what to do, before anything is waited for."""

import os
import sys
from pathlib import Path

import pytest
from tests.server_process import TALOS
from tests.spark.conftest import TalosServer
from tests.spark.pipeline_process import PipelineProcess
from tests.waiting import completed

NOBODY = ("--url", "http://127.0.0.1:9", "--as", "A:secret-of-nobody")
RUN = ("pipeline", "run", "archive", "-o", "archive.topics=a", *NOBODY)
WITHOUT_SPARK = """
import sys
sys.modules["pyspark"] = None
from opentalos.cli.main import main
main()
"""


def said(*command: str, **environment: str) -> str:
    done = completed(command, env={**os.environ, **environment})
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


# What Spark sets in the driver's pod of a submission with --deploy-mode cluster.
IN_A_POD = ("--conf", "spark.kubernetes.submitInDriver=true")
MOVES = "would be below --home, on the disk of a driver that may start on any machine; give "


@pytest.mark.parametrize(
    ("pipeline", "option", "remedy"),
    [
        ("metering", "", "the checkpoint of metering {} -o metering.checkpoint=hdfs://"),
        ("monitoring", "", "the rollups {} --olap delta+hdfs://"),
        ("monitoring", "olap", "the checkpoint of monitoring {} -o monitoring.checkpoint=hdfs://"),
    ],
)
def test_a_driver_that_may_start_anywhere_keeps_nothing_below_its_home(
    server: TalosServer, tmp_path: Path, pipeline: str, option: str, remedy: str
) -> None:
    given = ("--olap", f"file://{tmp_path}/shared") if option else ()
    run = PipelineProcess(server, tmp_path, "run", pipeline, *IN_A_POD, *given)
    try:
        assert run.wait() == 1, run.said()
    finally:
        run.kill()
    assert remedy.format(MOVES.strip()) in run.verdict()
    assert not list((tmp_path / "checkpoints").glob("*/metadata"))
