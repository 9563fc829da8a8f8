"""Which Python a cluster's executors run, and who started Spark."""

from pathlib import Path

import pytest

from opentalos.model.errors import ConfigError
from opentalos.pipelines.session import check_workers_python, is_submitted

MASTER = "spark://master:7077"


def test_the_python_of_executors_must_be_named() -> None:
    with pytest.raises(ConfigError, match=r"set PYSPARK_PYTHON to its path on their machines"):
        check_workers_python(MASTER, "")


def test_the_driver_must_have_the_python_of_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/sh")
    relative = "./environment/bin/python"
    with pytest.raises(ConfigError, match=r"the driver has no \./environment/bin/python"):
        check_workers_python(MASTER, relative)
    monkeypatch.chdir(tmp_path)
    assert check_workers_python(MASTER, relative) == relative


def test_spark_submit_is_known_by_its_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert not is_submitted()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1234")
    assert is_submitted()
