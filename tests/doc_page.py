"""Runs the commands of a page of the documentation, in its order, against a real server."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.server_process import TALOS
from tests.talking_program import run_talking
from tests.waiting import ended

# Of the environment that pages are tried in; make package names one with the wheel alone.
BIN = Path(os.environ.get("OPENTALOS_DOCS_BIN", TALOS.parent))

DOCS = Path(__file__).resolve().parent.parent / "docs"
FENCE = re.compile(r'^```(\w+)(?: title="([\w. ]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
LISTEN = "127.0.0.1:9420"  # as pages say; another port here
MARK = "@@block"


@dataclass(frozen=True)
class Block:
    """A fenced block of the page."""

    language: str
    title: str
    text: str


def blocks(page: str) -> list[Block]:
    """Those of a page with commands, programs and what comes out."""
    found = [Block(*item) for item in FENCE.findall((DOCS / page).read_text())]
    assert {item.language for item in found} == {"sh", "python", "text"}
    return found


def environment() -> dict[str, str]:
    """Of somebody who has just installed the package."""
    kept = {name: item for name, item in os.environ.items() if not name.startswith("TALOS_")}
    return {**kept, "PATH": f"{BIN}:{kept['PATH']}", "NO_PROXY": "*"}


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
        status = ended(server, f"{command} ends")
        server.stdout.close()
    assert status == 0


def wanted(text: str) -> str:
    """A pattern for the output that the page shows; three dots stand for anything."""
    return "(?s:" + re.escape(text.strip()).replace(re.escape("..."), ".*") + ")"


def run_page(page: str, folder: Path) -> str:
    """What the page's commands write; it is what the page shows."""
    found = blocks(page)
    script, outputs = ["set -e"], {}
    for number, block in enumerate(found):
        if block.language == "python":
            (folder / block.title).write_text(block.text)
        elif block.language == "sh" and not block.title:
            script += [f"echo '{MARK} {number}'", block.text]
        elif block.language == "text":
            outputs[number - 1] = block.text
    serve = [item.text.strip() for item in found if item.title == "serve"]
    assert serve == ["talos serve"]
    with serving(folder, serve[0]) as address:
        command = ["bash", "-c", "\n".join(script).replace(LISTEN, address)]
        said = run_talking(command, folder, environment())
    parts = re.split(rf"^{MARK} (\d+)\n", said, flags=re.MULTILINE)
    shown = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    for number, text in outputs.items():
        assert re.fullmatch(wanted(text), shown[number].strip()), shown[number]
    return said


def titles(page: str) -> list[str]:
    """Of its commands that are not run as they stand."""
    return [block.title for block in blocks(page) if block.language == "sh" and block.title]
