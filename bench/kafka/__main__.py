"""``make bench-kafka``: measure, print, and write the page of the figures.

Exits with 1 if something could not be measured, never because a figure is bad.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from bench.kafka import page, result
from bench.kafka.groups import RUNNING, measure

ROOT: Final = Path(__file__).resolve().parents[2]
OUT: Final = ROOT / "bench" / "out"
DOCS: Final = ROOT / "docs" / "internals"
PAGE: Final = "kafka-figures.md"


def main() -> int:
    """Measure the groups that were asked for."""
    names = ["start", *RUNNING]
    parser = argparse.ArgumentParser(description="The Kafka port beside Apache Kafka.")
    parser.add_argument("group", nargs="*", help=f"some of: {', '.join(names)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="one short round; about five minutes")
    parser.add_argument("--page", action="store_true", help="also write the page in docs")
    parser.add_argument("--again", action="store_true", help="measure nothing; write from the JSON")
    given = parser.parse_args()
    wanted = given.group or names
    if unknown := set(wanted) - set(names):
        parser.error(f"unknown group {sorted(unknown)}; known: {', '.join(names)}")
    file = OUT / "kafka.json"
    failed: list[str] = []
    if not given.again:
        OUT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=OUT, prefix="work-") as work:
            rows, failed = measure(Path(work), wanted, quick=given.quick)
        result.write(file, rows, 1 if given.quick else 5, failed)
    machine, rows = result.read(file)
    folder = DOCS if given.page else OUT
    page.pictures(rows, folder)
    text = page.page(machine, rows)
    (folder / PAGE).write_text(text)
    print(text)
    for reason in failed:
        print(f"not measured: {reason}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
