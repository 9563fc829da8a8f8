"""What ``pip install opentalos`` promises, as far as it shows without a package index."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from scripts.check_package import TRIED

ROOT = Path(__file__).resolve().parents[2]
NAME = re.compile(r"[A-Za-z0-9._-]+")
TRY_S = 60.0
# Refuses every installed module that does not come with the package's own dependencies.
BLOCK = """
import importlib.abc, sys
REFUSED = frozenset({refused!r})
class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"no module named {{name!r}} in a base install", name=name)
sys.meta_path.insert(0, Refuse())
"""

pytestmark = pytest.mark.timeout(90)


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure() -> set[str]:
    """The package and all that it needs without an extra, by distribution name."""
    found: set[str] = set()
    wanted = ["opentalos"]
    while wanted:
        name = plain(wanted.pop())
        if name in found:
            continue
        try:
            needs = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # of another platform
        found.add(name)
        for need in needs:
            match = NAME.match(need)
            if match and "extra ==" not in need:
                wanted.append(match[0])
    return found


def test_a_base_install_has_the_sdk_and_an_embedded_server() -> None:
    kept = closure()
    assert {"aiohttp", "click", "httptools"} <= kept
    assert not {"pyarrow", "numpy", "jpype1", "kazoo", "pytest"} & kept
    refused = {
        module
        for module, owners in importlib.metadata.packages_distributions().items()
        if not {plain(owner) for owner in owners} & kept
    }
    assert {"pyarrow", "jpype", "kazoo", "pytest"} <= refused
    program = BLOCK.format(refused=sorted(refused)) + TRIED
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=TRY_S
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "a server, a put and a get\n"


def test_the_metadata_names_command_plugin_extras_and_types() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["scripts"] == {"talos": "opentalos.cli.main:main"}
    assert project["project"]["entry-points"]["pytest11"] == {
        "opentalos": "opentalos.testing.pytest_plugin"
    }
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["src/opentalos"]
    assert (ROOT / "src" / "opentalos" / "py.typed").exists()
    installing = (ROOT / "docs" / "how-to" / "install.md").read_text()
    for extra in project["project"]["optional-dependencies"]:
        assert f"opentalos[{extra}]" in installing
