"""``make bench``: run every benchmark of one server, print a table and write JSON."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench import (
    accelerator_figures,
    care_figures,
    hanging_figures,
    journal_figures,
    noisy_figures,
    piece_figures,
    processes_figures,
    put_figures,
    read_figures,
    roll_figures,
    scale_figures,
    stall_figures,
    start_figures,
)
from bench.load import MissingTool
from bench.plan import Plan
from bench.report import Figure, table, write_json

OUT = Path(__file__).parent / "out" / "bench.json"
APART = ("noisy", "pieces")  # groups with a file and a section of the page of their own
GROUPS: dict[str, Callable[[Plan], Iterator[Figure]]] = {
    "puts": put_figures.closed_loop_puts,
    "latency": put_figures.open_loop_latency,
    "scale": scale_figures.scale,
    "rolls": roll_figures.rolls,
    "group-commit": put_figures.group_commit_gain,
    "accelerator": accelerator_figures.accelerator,
    "processes": processes_figures.processes,
    "batched": put_figures.batched_puts,
    "hanging": hanging_figures.hanging,
    "tail": read_figures.tail_fetch,
    "cold": read_figures.cold_fetch,
    "start": start_figures.start_and_idle,
    "embedded": start_figures.embedded,
    "partitions": start_figures.empty_partitions,
    "used": start_figures.used_partitions,
    "recovery": start_figures.recovery,
    "journal-recovery": journal_figures.journal_recovery,
    "scrub": care_figures.scrub,
    "end-marks": care_figures.end_marks,
    "stalls": stall_figures.longest_stall,
    "pieces": piece_figures.pieces,
    "noisy": noisy_figures.noisy,
}


def main() -> int:
    """Exit with 0 if everything was measured, whether or not goals were met."""
    parser = argparse.ArgumentParser(description="Benchmarks of one server on this machine.")
    parser.add_argument("group", nargs="*", help=f"some of: {', '.join(GROUPS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="short single runs, as a smoke test")
    parser.add_argument("--work", type=Path, help="folder on the disk under test (default: here)")
    arguments = parser.parse_args()
    if unknown := set(arguments.group) - set(GROUPS):
        parser.error(f"unknown group {sorted(unknown)}; known: {', '.join(GROUPS)}")
    figures: dict[str, list[Figure]] = {}
    failed = []
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.work or OUT.parent, prefix="work-") as work:
        plan = Plan(work=Path(work))
        if arguments.quick:
            plan = Plan(
                work=Path(work),
                seconds=3,
                repeats=1,
                latency_repeats=1,
                cold_blocks=64,
                recovery_share=10,
                stall_seconds=10,
            )
        for name in arguments.group or GROUPS:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            try:
                figures[name] = list(GROUPS[name](plan))
            except MissingTool as error:
                print(error, file=sys.stderr)
                return 1
            except (RuntimeError, OSError) as error:
                failed.append(name)
                print(f"{name} could not be measured: {error}", file=sys.stderr)
    for out, of_file in _by_file(figures).items():
        write_json(out, of_file)
        print(table(of_file))
        print(
            f"\nwritten to {out.relative_to(Path.cwd()) if out.is_relative_to(Path.cwd()) else out}"
        )
    return 1 if failed else 0


def _by_file(figures: Mapping[str, list[Figure]]) -> dict[Path, list[Figure]]:
    """Groups with a section of their own on the page are not lost when others are measured."""
    files: dict[Path, list[Figure]] = {}
    for name, measured in figures.items():
        out = OUT.with_name(f"{name}.json") if name in APART else OUT
        files.setdefault(out, []).extend(measured)
    return files


if __name__ == "__main__":
    sys.exit(main())
