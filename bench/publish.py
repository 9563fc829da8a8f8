"""Write what was measured into the documentation: ``python -m bench.publish``.

Takes the results that ``bench/out`` has into docs/internals/performance.md, between its markers,
and copies the pictures beside it. What was not measured stays as it is. Goals that were missed are
listed first, whoever measured them.
"""

import json
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.report import Figure, markdown

OUT = Path(__file__).parent / "out"
PAGE = Path(__file__).resolve().parent.parent / "docs" / "internals" / "performance.md"
SOURCES = ("scale", "compare", "bench-sdk", "bench", "noisy", "pieces", "cluster")
MISSED = "missed"


def publish(out: Path, page: Path) -> list[str]:
    """The names of the sections that were written."""
    text, written = page.read_text(), []
    for name in SOURCES:
        source = out / f"{name}.json"
        if not source.exists():
            continue
        machine, figures = read(source)
        own = out / f"{name}.md"
        table = own.read_text() if name == "scale" and own.exists() else markdown(figures)
        for picture in sorted(out.glob(f"{name}_*.svg")):
            shutil.copyfile(picture, page.parent / picture.name)
            title = picture.stem.replace("_", " ")
            table += f"\n![{title}]({picture.name})\n"
        text = replaced(text, name, f"{_conditions(machine)}\n\n{table}")
        text = replaced(text, f"{MISSED}-{name}", missed(figures))
        written.append(name)
    page.write_text(text)
    return written


def read(source: Path) -> tuple[dict[str, Any], list[Figure]]:
    """The machine and the figures of a run."""
    document = json.loads(source.read_text())
    return document["machine"], [Figure(**figure) for figure in document["figures"]]


def missed(figures: Sequence[Figure]) -> str:
    """A line for each goal that was missed."""
    lines = [
        f"- {figure.name}: {figure.median:.3g} {figure.unit} "
        f"({min(figure.values):.3g} to {max(figure.values):.3g}), goal {figure.goal}\n"
        for figure in figures
        if figure.met is False
    ]
    return "".join(lines) or "No goal was missed.\n"


def replaced(text: str, name: str, content: str) -> str:
    """The page with another section. Raises: RuntimeError: it has no such section."""
    begin, end = f"<!-- measured: {name} -->\n", f"<!-- end: {name} -->"
    if begin not in text or end not in text:
        raise RuntimeError(f"the page has no section {name}")
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    return re.sub(pattern, lambda _: f"{begin}\n{content}\n{end}", text, flags=re.DOTALL)


def _conditions(machine: dict[str, Any]) -> str:
    load = machine.get("load_average_15_min", 0.0)
    processors = machine.get("processors", 0)
    return f"{machine['system']}, {processors} processors, load average of the run {load:.1f}."


def main() -> int:
    """Exit with 1 if there is nothing to publish."""
    written = publish(OUT, PAGE)
    print(f"wrote {', '.join(written) or 'nothing'} to docs/internals/{PAGE.name}")
    return 0 if written else 1


if __name__ == "__main__":
    sys.exit(main())
