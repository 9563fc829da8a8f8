"""Two versions in turn: ``python -m bench.compare CHECKOUT [--quick]``.

    git worktree add ../before TAG
    make accelerator
    python -m bench.compare ../before

CHECKOUT is of the other version. Its server runs with the interpreter and the dependencies of this
one, and with its own compiled parts if they were built there. Ratios are of rounds: in each, every
contender runs once, and the order changes. Writes ``out/compare.json`` and ``compare.md``.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from bench import disk
from bench.arena import Contender, Sample, arena, cpu_us_of, in_turn, p99_ms_of, rate_of
from bench.builds import Build, builds_of, fastest_package
from bench.load import MissingTool
from bench.plan import Plan
from bench.report import Figure, markdown, table, write_json

OUT = Path(__file__).parent / "out"
CONNECTIONS = 64
PAIRS, RUN_S = 4, 4
QUICK_RUN_S = 1
BUDGET_S = 540.0  # beyond it a row has a single round
SHARE_OF_RATE = 0.5
CPU_GOAL, P99_GOAL, BARE_GOAL = 0.5, 0.5, 3.0
BEFORE = "before"


class Row(NamedTuple):
    """``goal``: times the rate of the other version. ``latency``: P99 at half of its rate too."""

    partitions: int
    durability: str
    goal: float
    latency: bool = False


@dataclass
class Bare:
    """P99 of append and fdatasync in each round: in a closed loop, and at the rate of the puts."""

    p99_ms: list[float] = field(default_factory=list)
    offered_ms: list[float] = field(default_factory=list)

    def measure(self, plan: Plan, rate: float) -> None:
        """One after the other."""
        closed = disk.synced_append_latencies_s(plan.work, seconds=plan.seconds)
        offered = disk.offered_append_latencies_s(plan.work, rate=rate, seconds=plan.seconds)
        for found, latencies in ((self.p99_ms, closed), (self.offered_ms, offered)):
            found.append(latencies[int(len(latencies) * 0.99)] * 1e3)


ROWS = (
    Row(8, "synced", 2.0, latency=True),
    Row(8, "flushed", 2.0),
    Row(64, "synced", 2.5),
    Row(256, "synced", 5.0),
    Row(1_000, "synced", 20.0, latency=True),
)
QUICK_ROWS = (Row(8, "synced", 2.0, latency=True), Row(64, "synced", 2.5))


def compare(plan: Plan, checkout: Path, rows: Sequence[Row]) -> Iterator[Figure]:
    """All rows; the first contender is the other version as it starts by default."""
    until_s = time.monotonic() + BUDGET_S
    builds = [Build(BEFORE, fastest_package(checkout)), *builds_of()[-2:]]
    for row in rows:
        # A journal takes nothing of flushed topics.
        chosen = builds if row.durability == "synced" else builds[:-1]
        repeats = 1 if time.monotonic() > until_s else plan.repeats
        with arena(plan, chosen, row.partitions, row.durability) as contenders:
            yield from _row(replace(plan, repeats=repeats), row, contenders)


def _row(plan: Plan, row: Row, contenders: Sequence[Contender]) -> Iterator[Figure]:
    title = f"{row.partitions:,} partitions, {row.durability}"
    runs = _rounds(plan, contenders, 0.0)
    for name in list(runs)[1:]:
        yield ratio(f"{name}: {title}: puts/s", runs, name, rate_of, (">=", row.goal))
        yield ratio(f"{name}: {title}: CPU per put", runs, name, cpu_us_of, ("<=", CPU_GOAL))
    if not row.latency:
        return
    rate = SHARE_OF_RATE * statistics.median(map(rate_of, runs[BEFORE]))
    bare = Bare()
    runs = _rounds(plan, contenders, rate, bare)
    for name in list(runs)[1:]:
        what = f"{name}: {title}: P99 at {rate:,.0f} puts/s"
        yield ratio(what, runs, name, p99_ms_of, ("<=", P99_GOAL))
        shares = [run.p99_ms / ms for run, ms in zip(runs[name], bare.p99_ms, strict=True)]
        yield Figure(
            name=f"{what}, against a bare loop of append and fdatasync",
            unit="x",
            values=shares,
            goal=f"<= {BARE_GOAL:g}",
            met=statistics.median(shares) <= BARE_GOAL,
            notes={"bare_p99_ms": statistics.median(bare.p99_ms)},
        )
        shares = [run.p99_ms / ms for run, ms in zip(runs[name], bare.offered_ms, strict=True)]
        yield Figure(
            name=f"{what}, against that loop at the same rate, from when each was due",
            unit="x",
            values=shares,
            notes={"offered_p99_ms": statistics.median(bare.offered_ms)},
        )


def _rounds(
    plan: Plan, contenders: Sequence[Contender], rate: float, bare: Bare | None = None
) -> dict[str, list[Sample]]:
    """Samples by name, one for each round; ``bare`` gets the P99 of bare loops in each."""
    runs: dict[str, list[Sample]] = {contender.build.name: [] for contender in contenders}
    for number in range(plan.repeats):
        if bare is not None:
            bare.measure(plan, rate)
        for contender in in_turn(contenders, number):
            run = contender.run(CONNECTIONS, rate=rate, seconds=plan.seconds)
            runs[contender.build.name].append(run)
    return runs


def ratio(
    title: str,
    runs: dict[str, list[Sample]],
    name: str,
    of: Callable[[Sample], float],
    goal: tuple[str, float],
) -> Figure:
    """Of the contender to the other version, round by round."""
    before, now = (list(map(of, runs[each])) for each in (BEFORE, name))
    ratios = [ours / theirs for ours, theirs in zip(now, before, strict=True)]
    sign, bound = goal
    median = statistics.median(ratios)
    return Figure(
        name=title,
        unit="x",
        values=ratios,
        goal=f"{sign} {bound:g}",
        met=median >= bound if sign == ">=" else median <= bound,
        notes={
            "before": statistics.median(before),
            "now": statistics.median(now),
            "errors": float(sum(run.errors for each in (BEFORE, name) for run in runs[each])),
        },
    )


def main() -> int:
    """Exit with 0 if everything was measured, whether or not goals were met."""
    parser = argparse.ArgumentParser(description="Compare two versions on this machine.")
    parser.add_argument("checkout", type=Path, help="of the other version")
    parser.add_argument("--quick", action="store_true", help="short single runs, as a smoke test")
    arguments = parser.parse_args()
    checkout = arguments.checkout.resolve()
    if not (checkout / "src" / "opentalos").is_dir():
        parser.error(f"{checkout} is no checkout of this project: it has no src/opentalos")
    OUT.mkdir(parents=True, exist_ok=True)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=OUT, prefix="work-") as work:
        plan = Plan(work=Path(work), seconds=RUN_S, repeats=PAIRS)
        if arguments.quick:
            plan = replace(plan, seconds=QUICK_RUN_S, repeats=1)
        try:
            rows = QUICK_ROWS if arguments.quick else ROWS
            for figure in compare(plan, checkout, rows):
                figures.append(figure)
                print(table([figure]).splitlines()[-1], file=sys.stderr, flush=True)
        except (MissingTool, RuntimeError, OSError) as error:
            print(f"could not be measured: {error}", file=sys.stderr)
            return 1
    write_json(OUT / "compare.json", figures)
    (OUT / "compare.md").write_text(markdown(figures))
    print(table(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
