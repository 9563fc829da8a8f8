"""A release turns what is unreleased into a section of its version, once."""

import datetime
import subprocess
from pathlib import Path

import pytest
from scripts import release as script
from scripts.release import CHART, ReleaseError, changelog_of, chart_of, notes_of, version_file_of

DAY = datetime.date(2026, 11, 22)
TEXT = """# Changelog

## Unreleased

### Added
- A new thing.

## 0.1.0 (2026-01-01)

### Added
- The first thing.
"""


def test_unreleased_changes_become_the_section_of_the_version() -> None:
    changed = changelog_of(TEXT, "0.2.0", DAY)
    assert "## Unreleased\n\n## 0.2.0 (2026-11-22)\n\n### Added\n- A new thing.\n" in changed
    assert notes_of(changed, "0.2.0") == "### Added\n- A new thing."
    assert notes_of(changed, "0.1.0") == "### Added\n- The first thing."


@pytest.mark.parametrize(
    ("text", "version", "reason"),
    [
        (TEXT, "0.1.0", "already"),
        ("# Changelog\n", "0.2.0", "no section"),
        (TEXT.replace("- A new thing.\n", ""), "0.2.0", "empty"),
    ],
)
def test_a_changelog_that_fits_no_release_is_refused(text: str, version: str, reason: str) -> None:
    with pytest.raises(ReleaseError, match=reason):
        changelog_of(text, version, DAY)


def test_the_version_stands_in_the_package() -> None:
    assert version_file_of('"""x"""\n\n__version__ = "0.1.0"\n', "0.2.0").endswith('"0.2.0"\n')


def test_the_chart_has_one_line_with_its_version() -> None:
    assert "\nversion: 9.8.7\n" in chart_of(CHART.read_text(), "9.8.7")
    with pytest.raises(ReleaseError, match="0 lines"):
        chart_of("apiVersion: v2\n", "9.8.7")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "src" / "opentalos"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "0.1.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(TEXT)
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nversion: 0.1.0\n")
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "CHART", tmp_path / "Chart.yaml")
    monkeypatch.setattr(script, "CHANGELOG", tmp_path / "CHANGELOG.md")
    monkeypatch.setattr(script, "VERSION_FILE", package / "__init__.py")
    monkeypatch.setattr(script, "build", lambda: None)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "someone")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "someone@localhost")
    for command in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "first"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_a_release_is_a_commit_and_a_tag_with_its_notes(repository: Path) -> None:
    script.release("0.2.0", dry_run=False)
    assert script.git("log", "-1", "--format=%s") == "release: 0.2.0"
    assert "### Added\n- A new thing." in script.git("tag", "-l", "--format=%(contents)", "v0.2.0")
    assert (repository / "src/opentalos/__init__.py").read_text() == '__version__ = "0.2.0"\n'
    assert (repository / "Chart.yaml").read_text() == "apiVersion: v2\nversion: 0.2.0\n"
    with pytest.raises(ReleaseError, match="exists already"):
        script.release("0.2.0", dry_run=False)


def test_a_wheel_that_does_not_work_leaves_no_trace(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build() -> None:
        raise ReleaseError("the wheel does not work")

    monkeypatch.setattr(script, "build", build)
    with pytest.raises(ReleaseError, match="does not work"):
        script.release("0.2.0", dry_run=False)
    assert script.git("status", "--porcelain") == ""
    assert script.git("tag") == ""


@pytest.mark.parametrize("version", ["1.0", "v1.0.0", "1.0.0rc1", ""])
def test_an_invalid_version_is_refused(repository: Path, version: str) -> None:
    with pytest.raises(ReleaseError, match="not a version"):
        script.release(version, dry_run=False)


def test_uncommitted_changes_are_not_released(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text(TEXT + "more\n")
    with pytest.raises(ReleaseError, match="uncommitted"):
        script.release("0.2.0", dry_run=False)


def test_a_dry_run_shows_the_notes_and_changes_nothing(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script.release("0.2.0", dry_run=True)
    assert "- A new thing." in capsys.readouterr().out
    assert script.git("status", "--porcelain") == ""
