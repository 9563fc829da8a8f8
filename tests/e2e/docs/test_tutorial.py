"""The tutorial's commands, in its order, against a real server; its outputs are what comes out."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.server_process import TALOS

ROOT = Path(__file__).resolve().parents[3]
TUTORIAL = ROOT / "docs" / "tutorial.md"
FENCE = re.compile(r'^```(\w+)(?: title="([\w. ]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
LISTEN = "127.0.0.1:9420"  # as the page says; another port here
SCRIPT_S = 90.0
MARK = "@@block"

pytestmark = pytest.mark.timeout(120)


@dataclass(frozen=True)
class Block:
    """A fenced block of the page."""

    language: str
    title: str
    text: str


def blocks() -> list[Block]:
    found = [Block(*one) for one in FENCE.findall(TUTORIAL.read_text())]
    assert {one.language for one in found} == {"sh", "python", "text"}
    return found


def environment() -> dict[str, str]:
    """Of somebody who has just installed the package."""
    kept = {name: one for name, one in os.environ.items() if not name.startswith("TALOS_")}
    return {**kept, "PATH": f"{TALOS.parent}:{kept['PATH']}", "NO_PROXY": "*"}


@contextmanager
def serving(folder: Path, command: str) -> Iterator[str]:
    """The page's server, on a free port; its address."""
    with (folder / "server.stderr").open("wb") as stderr:
        server = subprocess.Popen(
            f"exec {command} --listen 127.0.0.1:0",
            shell=True, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=stderr,
        )  # fmt: skip
    assert server.stdout is not None
    try:
        line = server.stdout.readline().decode().strip()
        assert line.startswith("ready http://"), (folder / "server.stderr").read_text()
        yield line.removeprefix("ready http://")
    finally:
        server.terminate()
        status = server.wait(20)
        server.stdout.close()
    assert status == 0


def wanted(text: str) -> str:
    """A pattern for the output that the page shows; three dots stand for anything."""
    return "(?s:" + re.escape(text.strip()).replace(re.escape("..."), ".*") + ")"


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    page = blocks()
    script, outputs = ["set -e"], {}
    for number, block in enumerate(page):
        if block.language == "python":
            (tmp_path / block.title).write_text(block.text)
        elif block.language == "sh" and not block.title:
            script += [f"echo '{MARK} {number}'", block.text]
        elif block.language == "text":
            outputs[number - 1] = block.text
    serve = [one.text.strip() for one in page if one.title == "serve"]
    assert serve == ["talos serve"]
    with serving(tmp_path, serve[0]) as address:
        done = subprocess.run(
            ["bash", "-c", "\n".join(script).replace(LISTEN, address)],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=SCRIPT_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    parts = re.split(rf"^{MARK} (\d+)\n", done.stdout, flags=re.MULTILINE)
    shown = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    for number, text in outputs.items():
        assert re.fullmatch(wanted(text), shown[number].strip()), shown[number]
    assert '"lag": 1' in done.stdout  # the last block's answer


def test_only_the_installation_is_left_to_the_test_of_the_package() -> None:
    titles = [one.title for one in blocks() if one.language == "sh" and one.title]
    assert titles == ["install", "serve"]
