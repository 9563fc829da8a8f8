"""Fetch promtool, which checks /metrics and the alerting rules, or report why it is unavailable.

It is taken from Debian's package of Prometheus, unpacked and not installed; one on the path will
do as well. Quick when it is there. Never fails: only its own tests need it.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from opentalos.backends.places import data_home

FOLDER = data_home() / "opentalos" / "prometheus"
PACKAGE = "prometheus"
TIMEOUT_S = 300.0


def promtool() -> Path | None:
    """The path of promtool, if it exists."""
    fetched = FOLDER / "promtool"
    if fetched.exists():
        return fetched
    found = shutil.which("promtool")
    return Path(found) if found else None


def fetch() -> None:
    """Download and unpack. Raises: OSError, subprocess.SubprocessError."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        _run_apt(folder, "update")  # own package lists: those of a fresh machine may be missing
        _run_apt(folder, "download", PACKAGE)
        (package,) = Path(folder).glob(f"{PACKAGE}_*.deb")
        _run(folder, "dpkg-deb", "--extract", package.name, "unpacked")
        Path(folder, "unpacked", "usr", "bin", "promtool").replace(FOLDER / "promtool")


def _run_apt(folder: str, *command: str) -> None:
    """Run apt-get with separate lists and cache: needs no privileges, changes nothing."""
    for part in ("lists/partial", "cache/archives/partial"):
        Path(folder, part).mkdir(parents=True, exist_ok=True)
    places = (f"Dir::State::Lists={folder}/lists", f"Dir::Cache={folder}/cache")
    options = [word for place in places for word in ("-o", place)]
    _run(folder, "apt-get", "--quiet", *options, *command)


def _run(folder: str, *command: str) -> None:
    environment = {**os.environ, "LC_ALL": "C"}
    subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, timeout=TIMEOUT_S
    )


def main() -> None:
    if promtool() is not None:
        return
    print("setup: fetching promtool", flush=True)
    try:
        fetch()
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        reason = getattr(error, "stderr", b"") or str(error).encode()
        text = reason.decode(errors="replace").strip().splitlines()[-1:]
        print(f"setup: no promtool, tests of metrics are skipped: {' '.join(text)}", flush=True)


if __name__ == "__main__":
    main()
