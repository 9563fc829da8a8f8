"""The site builds without a warning, and needs nothing from elsewhere."""

import ast
import importlib
import os
import re
import sys
from pathlib import Path

import pytest
from tests.waiting import completed

import opentalos.sdk
import opentalos.testing

ROOT = Path(__file__).resolve().parents[3]
LOADED = re.compile(
    r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(https?:)?//|<link[^>]*\shref=["']?(https?:)?//"""
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = completed(command, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    return folder


def text_of(page: Path) -> str:
    """What a page shows."""
    return re.sub(r"<[^>]*>", "", page.read_text())


def test_no_page_loads_anything_from_another_place(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert [page.name for page in pages if LOADED.search(page.read_text())] == []
    styles = [path.read_text() for path in (site / "assets").rglob("*.css")]
    assert [style for style in styles if re.search(r"url\(['\"]?(https?:)?//", style)] == []


def test_the_reference_has_every_public_name_and_command(site: Path) -> None:
    sdk = text_of(site / "reference" / "sdk.html")
    assert [name for name in opentalos.sdk.__all__ if name not in sdk] == []
    testing = text_of(site / "reference" / "testing.html")
    assert [name for name in opentalos.testing.__all__ if name not in testing] == []
    commands = text_of(site / "reference" / "cli.html")
    for command in ("talos serve", "talos topic create", "talos group reset", "talos restore"):
        assert f"Usage: {command} " in commands
    assert "Unreleased" in text_of(site / "changelog.html")


def test_guides_show_the_programs_that_they_include(site: Path) -> None:
    pages = [page for page in site.rglob("*.html") if re.search(r"--8\s*<", text_of(page))]
    assert [page.name for page in pages] == []
    assert "test_messages_are_copied_in_capitals" in text_of(site / "how-to" / "testing.html")


def test_code_in_the_guides_imports_what_exists() -> None:
    blocks = [
        (page.name, code)
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for code in re.findall(r"^```python[^\n]*\n(.*?)^```$", page.read_text(), re.M | re.S)
        if "--8<--" not in code  # an example, which is run
    ]
    assert len(blocks) > 5
    for name, code in blocks:
        for node in ast.walk(ast.parse(code, name)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("opentalos"):
                module = importlib.import_module(str(node.module))
                assert [item.name for item in node.names if not hasattr(module, item.name)] == [], (
                    name
                )
