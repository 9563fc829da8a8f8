"""Fetch the tests of kafka-python from its source distribution, for tests/compat.

Only the files of the tests are unpacked; the client that they use is the wheel in .venv.
"""

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from opentalos.backends.places import data_home

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "kafka-tests.lock"
FOLDER = data_home() / "opentalos" / "kafka-python-tests"
STAMP = FOLDER / ".fetched-from"
WANTED = ("test/integration/", "test/testutil.py")
PIP_S = 300.0


def digest() -> str:
    """Of what is fetched."""
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


def current() -> bool:
    """Whether the tests of this release exist."""
    return STAMP.exists() and STAMP.read_text() == digest()


def fetch() -> None:
    """Download and unpack. Raises: OSError, subprocess.SubprocessError."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", ":all:", "--require-hashes", "--requirement", str(LOCK)]
        subprocess.run(command, cwd=folder, check=True, timeout=PIP_S)
        (archive,) = Path(folder).glob("kafka_python-*.tar.gz")
        with tarfile.open(archive) as opened:
            for member in opened.getmembers():
                name = member.name.partition("/")[2]
                source = opened.extractfile(member) if member.isfile() else None
                if source is None or not name.startswith(WANTED):
                    continue
                place = FOLDER / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(source.read())
    (FOLDER / "test" / "__init__.py").touch()  # Python has a package of that name, too
    STAMP.write_text(digest())


def main() -> None:
    if current():
        return
    print("setup: fetching the tests of kafka-python", flush=True)
    try:
        fetch()
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"setup: could not fetch the tests of kafka-python: {error}")


if __name__ == "__main__":
    main()
