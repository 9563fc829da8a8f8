"""docs/operating/agents.md lists every measure, and no other."""

import re
from pathlib import Path

from opentalos.wire.metrics.measures import MEASURES, Scope

PAGE = Path(__file__).parents[4] / "docs" / "operating" / "agents.md"
SECTIONS = {Scope.SERVER: "server", Scope.PARTITION: "partition", Scope.MACHINE: "machine"}


def test_the_page_has_every_measure_as_it_is() -> None:
    page = PAGE.read_text()
    for scope, title in SECTIONS.items():
        section = page.split(f"### Of a {title}\n", 1)[1].split("\n#", 1)[0]
        rows = re.findall(r"^\| `.*$", section, re.MULTILINE)
        assert rows == [
            f"| `{measure.name}` | {measure.kind} | {measure.unit} | {measure.about} |"
            for measure in MEASURES
            if measure.scope is scope
        ]
