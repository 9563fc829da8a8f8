"""Fetch the console's browser libraries from their npm packages, or check those in the tree.

usage: fetch_console_assets.py            (fetch, after a change of a version below; needs npm)
       fetch_console_assets.py --check    (compare the files in the tree with their digests)
       fetch_console_assets.py --tests    (fetch what only tests of pages need; never fails)

``npm pack`` asks the registry that npm is configured for. A package counts only if its archive has
the digest below, and files go into the tree as they are in the archive.
"""

import argparse
import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from opentalos.backends.places import data_home

ROOT = Path(__file__).resolve().parent.parent
VENDORED = ROOT / "src/opentalos/gateway/console/static/vendored"
FOR_TESTS = data_home() / "opentalos" / "browser-tests"
TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Package:
    """One archive, and the files that are taken: path in the archive to name and SHA-256."""

    name: str
    version: str
    sha512: str
    files: Mapping[str, tuple[str, str]]


HTMX = Package(
    "htmx.org",
    "2.0.11",
    "Thx/WtpeOQqSrqBCw/A1cwGJGg4UrVa3+sW0GmrM3p4gJgO89ecH4qtbnyzDDWFvBTqjnIMCgELTNt636dtamA==",
    {
        "package/dist/htmx.min.js": (
            "htmx.min.js",
            "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
        ),
        "package/LICENSE": (
            "htmx-LICENSE.txt",
            "d3d2456f76414f2456104660ebd65aff1c04cd7966b942bdabd63f3cdb316a38",
        ),
    },
)
UPLOT = Package(
    "uplot",
    "1.6.32",
    "KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==",
    {
        "package/dist/uPlot.iife.min.js": (
            "uPlot.iife.min.js",
            "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        ),
        "package/dist/uPlot.min.css": (
            "uPlot.min.css",
            "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
        ),
        "package/LICENSE": (
            "uPlot-LICENSE.txt",
            "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
        ),
    },
)
AXE = Package(
    "axe-core",
    "4.14.1",
    "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ==",
    {
        "package/axe.min.js": (
            "axe.min.js",
            "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c",
        )
    },
)


def fetch(package: Package, folder: Path) -> None:
    """Put the files of a package into a folder.

    Raises: ValueError: another digest; OSError, subprocess.SubprocessError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        command = ["npm", "pack", "--silent", f"{package.name}@{package.version}"]
        subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=TIMEOUT_S)
        (archive,) = Path(place).glob("*.tgz")
        found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
        if found != package.sha512:
            raise ValueError(f"{archive.name} has the digest {found}")
        with tarfile.open(archive) as opened:
            for member, (name, sha256) in package.files.items():
                file = opened.extractfile(member)
                content = file.read() if file is not None else b""
                if hashlib.sha256(content).hexdigest() != sha256:
                    raise ValueError(f"{member} of {archive.name} has another digest")
                (folder / name).write_bytes(content)


def differences(package: Package, folder: Path) -> Iterator[str]:
    """Files that are missing or changed."""
    for name, sha256 in package.files.values():
        path = folder / name
        if not path.exists():
            yield f"{path} is missing"
        elif hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
            yield f"{path} is not that of {package.name} {package.version}"


def fetch_for_tests() -> None:
    if not any(differences(AXE, FOR_TESTS)):
        return
    print("setup: fetching axe-core for the tests of pages", flush=True)
    try:
        fetch(AXE, FOR_TESTS)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"setup: no axe-core, so tests of accessibility will fail: {error}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="The console's browser libraries.")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tests", action="store_true")
    chosen = parser.parse_args()
    if chosen.tests:
        fetch_for_tests()
        return 0
    if not chosen.check:
        if shutil.which("npm") is None:
            print("npm is not on the path", file=sys.stderr)
            return 1
        for package in (HTMX, UPLOT):
            fetch(package, VENDORED)
    wrong = [line for package in (HTMX, UPLOT) for line in differences(package, VENDORED)]
    print("\n".join(wrong), end="\n" if wrong else "", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
