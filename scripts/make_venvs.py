"""Create the three virtual environments of the project unless they are current.

    python3 scripts/make_venvs.py          all three
    python3 scripts/make_venvs.py --demo   .venv with what a server needs, and .sdk-venv

``.venv`` holds the project and, but for ``--demo``, its tools; ``.sdk-venv`` holds the official
Talos SDK, which owns the import name ``talos``; ``.sds-venv`` holds a port of the official SDS
client, which owns ``thrift``, ``rpc`` and ``sds``. Needs Python >= 3.11, no compiler. A stamp in
each environment records a digest of everything it was made from.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON_MIN = (3, 11)
STAMP = ".made-from"
RUNTIME_STAMP = ".made-to-run"  # a later setup of all adds the tools to it


class Environment:
    """A virtual environment and the pip calls that populate it."""

    def __init__(
        self,
        name: str,
        inputs: list[str],
        installs: list[list[str]],
        *,
        stamp: str = STAMP,
        about: str = "",
    ) -> None:
        self.path = ROOT / name
        self.inputs = inputs
        self.installs = installs
        self.stamp = self.path / stamp
        self.about = about

    def digest(self) -> str:
        total = hashlib.sha256(sys.version.encode())
        for name in self.inputs:
            total.update((ROOT / name).read_bytes())
        return total.hexdigest()

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    def current(self) -> bool:
        made = self.python.exists() and self.stamp.exists()
        return made and self.stamp.read_text() == self.digest()

    def make(self) -> None:
        if self.current():
            return
        print(f"setup: {self.path.name}{self.about}", flush=True)
        if not self.python.exists():
            create(self.path)
        for arguments in self.installs:
            call = [str(self.python), "-m", "pip", "install", "--quiet", *arguments]
            done = subprocess.run(call, cwd=str(ROOT), env=pip_environment())
            if done.returncode != 0:
                sys.exit(f"setup: pip could not fill {self.path.name}; its reason is above")
        self.stamp.write_text(self.digest())


def create(path: Path) -> None:
    """Create an empty environment with pip."""
    made = subprocess.run([sys.executable, "-m", "venv", str(path)])
    if made.returncode != 0:
        shutil.rmtree(str(path), ignore_errors=True)
        sys.exit(
            "setup: python3 -m venv failed. On Debian and Ubuntu: apt-get install python3-venv"
        )


def pip_environment() -> dict[str, str]:
    """The environment variables, with the update notice of pip disabled."""
    return dict(os.environ, PIP_DISABLE_PIP_VERSION_CHECK="1")


LOCKED = ["--require-hashes", "--only-binary", ":all:"]
SOURCES = ["--no-binary", "forbiddenfruit", "--no-binary", "pyspark"]
PROJECT = ["--no-deps", "--editable", "."]
WHOLE = Environment(
    ".venv",
    ["requirements/dev.lock", "pyproject.toml"],
    [
        # Source distributions only; neither has compiled extensions.
        [*LOCKED, *SOURCES, "--requirement", "requirements/dev.lock"],
        PROJECT,
    ],
    about=", with Spark and the tools of the tests: 1.6 GB",
)
RUNTIME = Environment(
    ".venv",
    ["requirements/runtime.lock", "pyproject.toml"],
    [[*LOCKED, "--requirement", "requirements/runtime.lock"], PROJECT],
    stamp=RUNTIME_STAMP,
    about=", with what a server needs: 80 MB",
)
OFFICIAL_SDK = Environment(
    ".sdk-venv",
    [
        "requirements/sdk.lock",
        "requirements/sdk-official.lock",
        "tests/compat/atomic_stand_in/atomic.py",
        "tests/compat/atomic_stand_in/pyproject.toml",
    ],
    [
        [*LOCKED, "--requirement", "requirements/sdk.lock"],
        ["--no-deps", "./tests/compat/atomic_stand_in"],
        # A source distribution without extensions, built with setuptools from sdk.lock.
        [
            "--no-deps",
            "--require-hashes",
            "--no-build-isolation",
            "--requirement",
            "requirements/sdk-official.lock",
        ],
    ],
    about=", with the official SDK: 65 MB",
)
SDS = Environment(
    ".sds-venv",
    ["requirements/sds.lock"],
    [[*LOCKED, "--no-deps", "--requirement", "requirements/sds.lock"]],
)


def main() -> None:
    if sys.version_info < PYTHON_MIN:
        sys.exit(
            f"setup: needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}. "
            "Name another one: make setup PYTHON=python3.12"
        )
    if sys.argv[1:] == ["--demo"]:
        wanted = [WHOLE if WHOLE.current() else RUNTIME, OFFICIAL_SDK]
    else:
        wanted = [WHOLE, OFFICIAL_SDK, SDS]
    for environment in wanted:
        environment.make()


if __name__ == "__main__":
    main()
