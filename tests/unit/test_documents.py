"""Documents name what exists: anomalies of the checker, and decisions in their index."""

import re
from pathlib import Path

from opentalos.testing.simulation.checks.checker import ANOMALIES

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def test_each_promise_is_proven_by_anomalies_that_the_checker_knows() -> None:
    proven = [
        line for line in (DOCS / "promises.md").read_text().splitlines() if "**Proven by:**" in line
    ]
    assert len(proven) == 9
    for line in proven:
        # What follows the first ";" are tests; tables have anomalies of their own.
        named = {name for name in re.findall(r"`([\w-]+)`", line) if "/" not in name}
        assert named, line
        assert named <= set(ANOMALIES), named - set(ANOMALIES)


def test_the_index_lists_every_decision() -> None:
    index = (DOCS / "adr" / "README.md").read_text()
    decisions = sorted(path.name for path in (DOCS / "adr").glob("0*.md"))
    assert len(decisions) >= 15
    assert [name for name in decisions if f"]({name})" not in index] == []
