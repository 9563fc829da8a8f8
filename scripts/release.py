"""Release a version: changelog, version, wheel, commit and tag.

usage: release.py VERSION [--dry-run]      (VERSION: MAJOR.MINOR.PATCH)

The section "Unreleased" of CHANGELOG.md becomes the section of the version, with today's date;
the package and the Helm chart get its number.
The wheels are built, installed and tried (``make package``) before anything is committed, so a
version that does not install leaves no trace. One is for every machine, one for machines of this
kind, with the accelerator; those of other versions and platforms are built from the tag by
cibuildwheel. Nothing is pushed or uploaded: the last lines say which commands do that.
"""

import argparse
import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CHANGELOG = ROOT / "CHANGELOG.md"
VERSION_FILE = ROOT / "src" / "opentalos" / "__init__.py"
CHART = ROOT / "deploy" / "helm" / "opentalos" / "Chart.yaml"
UNRELEASED = "## Unreleased\n"
VERSION = re.compile(r"\d+\.\d+\.\d+")


class ReleaseError(Exception):
    """Nothing was released; the text says why and what to do."""


def changelog_of(text: str, version: str, day: datetime.date) -> str:
    """The changelog in which what was unreleased belongs to ``version``.

    Raises: ReleaseError: no such section, nothing in it, or the version is released already.
    """
    if re.search(rf"^## {re.escape(version)}\b", text, re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md has a section {version} already; choose a later version")
    before, found, after = text.partition(UNRELEASED)
    if not found:
        raise ReleaseError('CHANGELOG.md has no section "## Unreleased"; add one')
    changes = after.split("\n## ", 1)[0]
    if not re.search(r"^- ", changes, re.MULTILINE):
        raise ReleaseError(
            'the section "Unreleased" of CHANGELOG.md is empty; describe the changes'
        )
    return f"{before}{UNRELEASED}\n## {version} ({day.isoformat()})\n{after}"


def notes_of(text: str, version: str) -> str:
    """The section of a version, for the text of its tag."""
    _, _, after = text.partition(f"\n## {version} ")
    return after.partition("\n")[2].split("\n## ", 1)[0].strip()


def version_file_of(text: str, version: str) -> str:
    """The module with ``__version__`` set to ``version``."""
    return re.sub(r'(?m)^__version__ = ".*"$', f'__version__ = "{version}"', text, count=1)


def chart_of(text: str, version: str) -> str:
    """The Helm chart with ``version`` as its own. Raises: ReleaseError: it has no such line."""
    changed, count = re.subn(r"(?m)^version: .*$", f"version: {version}", text)
    if count != 1:
        raise ReleaseError(f"the Helm chart has {count} lines with its version, need one")
    return changed


def git(*arguments: str) -> str:
    """The output of a git command that succeeds."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise ReleaseError(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def check_tree(version: str) -> None:
    """A release is made of what is committed, once.

    Raises: ReleaseError.
    """
    if not VERSION.fullmatch(version):
        raise ReleaseError(f"not a version: {version!r}; use MAJOR.MINOR.PATCH, such as 0.2.0")
    changed = git("status", "--porcelain")
    if changed:
        raise ReleaseError(f"there are uncommitted changes; commit or stash them:\n{changed}")
    if git("tag", "--list", f"v{version}"):
        raise ReleaseError(f"the tag v{version} exists already; choose a later version")


def build() -> None:
    """Build, install and try the wheel of the changed tree."""
    done = subprocess.run([sys.executable, str(ROOT / "scripts" / "check_package.py")], cwd=ROOT)
    if done.returncode != 0:
        raise ReleaseError("the wheel was not built or does not work; its reason is above")


def release(version: str, *, dry_run: bool) -> None:
    """Change the files, try the wheel, commit and tag; on failure the files are put back.

    Raises: ReleaseError.
    """
    if not dry_run:
        check_tree(version)
    before = {path: path.read_text() for path in (CHANGELOG, VERSION_FILE, CHART)}
    changelog = changelog_of(before[CHANGELOG], version, datetime.date.today())
    notes = notes_of(changelog, version)
    if dry_run:
        print(f"would release {version} with these notes:\n\n{notes}")
        return
    CHANGELOG.write_text(changelog)
    VERSION_FILE.write_text(version_file_of(before[VERSION_FILE], version))
    CHART.write_text(chart_of(before[CHART], version))
    try:
        build()
        git("add", *map(str, before))
        git("commit", "--quiet", "--message", f"release: {version}")
    except BaseException:
        for path, text in before.items():
            path.write_text(text)
        raise
    git(
        "tag",
        "--annotate",
        f"v{version}",
        "--cleanup=verbatim",
        "--message",
        f"{version}\n\n{notes}",
    )
    print(f"released {version}: wheels in .cache/package; to publish: git push --follow-tags")
    print(
        "wheels for every CPython and older systems (Linux x86-64, aarch64, macOS), each on such a "
        "machine: pipx run cibuildwheel"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("version", metavar="VERSION", help="MAJOR.MINOR.PATCH")
    parser.add_argument("--dry-run", action="store_true", help="show the notes, change nothing")
    arguments = parser.parse_args()
    try:
        release(arguments.version, dry_run=arguments.dry_run)
    except ReleaseError as error:
        sys.exit(f"release: {error}")


if __name__ == "__main__":
    main()
