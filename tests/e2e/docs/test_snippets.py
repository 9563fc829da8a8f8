"""Every command and program of the README and the guides is run here or elsewhere, or its page says
why not: ``<!-- not run: REASON -->`` in the line before it."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.doc_page import BIN, environment
from tests.waiting import completed

from opentalos.testing import EmbeddedServer

ROOT = Path(__file__).resolve().parents[3]
BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>.+) -->\n)?```(?P<language>\w*)[^\n]*\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
RUN = {"sh", "python", ""}  # others show files and outputs
INCLUDED = '--8<-- "examples/'  # has a test of its own
INCLUDES = re.compile(re.escape(INCLUDED) + r'([\w./-]+\.(?:py|sh|ts|go|java))"')
# Pages whose commands run in order in tests of their own.
ELSEWHERE = {
    "README.md",
    "backup.md",
    "encryption.md",
    "single-server.md",
    "tables.md",
    "tutorial.md",
    "tutorial-tables.md",
}
# Pages that run here, and whether they need more than the base install.
HERE = {
    "produce.md": False, "consume.md": False, "idempotent.md": False, "tls.md": False,
    "arrow.md": True, "testing.md": True,
}  # fmt: skip
TOPICS = ("orders", "clicks", "invoices")


@dataclass(frozen=True)
class Snippet:
    """A block with commands or a program."""

    page: Path
    language: str
    text: str
    why: str  # it is not run; empty: it is

    @property
    def shown(self) -> str:
        return f"{self.page.name}: {self.text.splitlines()[0]}"


def snippets() -> list[Snippet]:
    docs = ROOT / "docs"
    pages = [ROOT / "README.md", *docs.glob("tutorial*.md")]
    pages += [*(docs / "how-to").glob("*.md"), *(docs / "operating").glob("*.md")]
    return [
        Snippet(page, found["language"], found["text"], found["why"] or "")
        for page in sorted(pages)
        for found in BLOCK.finditer(page.read_text())
        if found["language"] in RUN and found["text"] and INCLUDED not in found["text"]
    ]


def of_page(name: str) -> list[Snippet]:
    return [item for item in snippets() if item.page.name == name and not item.why]


def test_each_snippet_runs_or_says_why_not() -> None:
    found = snippets()
    assert len(found) > 60
    silent = [
        item.shown
        for item in found
        if not item.why and item.page.name not in ELSEWHERE and item.page.name not in HERE
    ]
    assert silent == []
    untagged = [item.shown for item in found if not item.language and not item.why]
    assert untagged == []  # tests of pages run what is tagged
    assert all(of_page(name) for name in HERE)


def test_each_program_that_a_page_shows_says_with_which_arguments_it_runs() -> None:
    shown = {
        (page, name)
        for page in sorted((ROOT / "docs").rglob("*.md"))
        for name in INCLUDES.findall(page.read_text())
    }
    assert len(shown) >= 10
    silent = [
        f"{page.name}: {name}"
        for page, name in sorted(shown)
        for text in [page.read_text() + (ROOT / "examples" / name).read_text()]
        if not re.search(rf"\b{Path(name).stem}(\.\w+)? [A-Za-z]|run: .*{Path(name).name}", text)
    ]
    assert silent == []


@pytest.mark.parametrize("name", HERE)
def test_the_snippets_of_a_page_run_in_order(name: str, tmp_path: Path) -> None:
    found = of_page(name)
    program = tmp_path / "page.py"
    program.write_text("\n".join(item.text for item in found if item.language == "python"))
    shell = "\n".join(item.text for item in found if item.language == "sh")
    python = Path(sys.executable) if HERE[name] else BIN / "python"
    if "def test_" in program.read_text():
        command = f"{python} -m pytest -q -p no:cacheprovider page.py"
    else:
        command = f"{python} page.py"
    with EmbeddedServer() as server:
        for topic in TOPICS:
            server.create_topic(topic)
        done = completed(
            ["bash", "-ec", f"{command}\n{shell}"],
            cwd=tmp_path,
            env=environment()
            | {"TALOS_URL": server.url, "TALOS_KEY": f"{server.key_id}:{server.secret}"},
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
