"""The locks fit together: the demo runs what the tests have tested."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PIN = re.compile(r"^([a-z0-9.-]+)==([^ ]+)", re.MULTILINE)


def pins(lock: str) -> dict[str, str]:
    """Versions by package."""
    found = dict(PIN.findall((ROOT / "requirements" / lock).read_text()))
    assert found, lock
    return found


def test_what_runs_a_server_has_the_versions_that_are_tested() -> None:
    assert pins("runtime.lock").items() <= pins("dev.lock").items()


def test_what_runs_a_server_has_all_dependencies() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[^a-z0-9-]", text)[0] for text in project["dependencies"]}
    assert needed <= set(pins("runtime.lock"))
