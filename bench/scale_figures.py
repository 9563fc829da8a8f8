"""Puts over partitions and over connections, of each build with a journal and without one.

Beside the figures it writes ``out/scale.json``, ``scale.md`` and pictures of rate and P99.
"""

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bench import disk
from bench.arena import Contender, Sample, arena, cpu_us_of, in_turn, p99_ms_of, rate_of
from bench.builds import builds_of
from bench.line_picture import Labels, Line, draw
from bench.plan import Plan
from bench.report import Figure, markdown, write_json

OUT = Path(__file__).parent / "out"
PARTITIONS = (1, 8, 64, 256, 1_000, 10_000)
CONNECTIONS = (8, 64, 256)
USUAL_CONNECTIONS = 64
DETAILED = (8, 1_000)  # partitions for which connections vary and half the rate is offered
QUICK_PARTITIONS = (8, 64)
RUN_S, QUICK_S = 3, 1
BUDGET_S, QUICK_BUDGET_S = 540.0, 60.0  # beyond it what is left is measured once
SHARE_OF_RATE = 0.5
SHARE_OF_8 = 0.7
TIMES_BARE = 3.0
Cell = tuple[int, int]  # partitions, connections


@dataclass
class Scale:
    """Samples by build and cell."""

    samples: dict[str, dict[Cell, list[Sample]]] = field(default_factory=dict)

    def add(self, build: str, cell: Cell, sample: Sample) -> None:
        """Add a run."""
        self.samples.setdefault(build, {}).setdefault(cell, []).append(sample)

    def median(self, build: str, cell: Cell, of: Callable[[Sample], float]) -> float:
        """The median over the runs of a cell."""
        return statistics.median(map(of, self.samples[build][cell]))

    def lines(
        self, of: Callable[[Sample], float], *, partitions: int = 0, connections: int = 0
    ) -> dict[str, Line]:
        """By build: medians over connections for given partitions, or the other way round."""
        return {
            build: {
                cell[1] if partitions else cell[0]: self.median(build, cell, of)
                for cell in sorted(cells)
                if cell[0] == partitions or cell[1] == connections
            }
            for build, cells in self.samples.items()
        }

    def cells(self) -> list[Cell]:
        """Everything that was measured, in order."""
        return sorted({cell for cells in self.samples.values() for cell in cells})

    def entry(self, build: str, cell: Cell) -> str:
        """A field of a table: puts a second; P99; CPU time of a put."""
        if cell not in self.samples[build]:
            return ""
        rate, p99_ms = self.median(build, cell, rate_of), self.median(build, cell, p99_ms_of)
        cpu_us = self.median(build, cell, cpu_us_of)
        return f"{rate:,.0f}/s; {p99_ms:.3g} ms; {cpu_us:.0f} µs"

    def figures(self) -> Iterator[Figure]:
        """A row for each cell, and the share of the rate at 8 partitions."""
        for build, cells in self.samples.items():
            for cell, runs in sorted(cells.items()):
                yield Figure(
                    name=f"{build}: {cell[0]:,} partitions, {cell[1]} connections",
                    unit="puts/s",
                    values=[run.puts_per_s for run in runs],
                    notes={
                        "p50_ms": statistics.median(run.p50_ms for run in runs),
                        "p99_ms": statistics.median(run.p99_ms for run in runs),
                        "p99_ms_max": max(run.p99_ms for run in runs),
                        "server_us_per_put": statistics.median(run.cpu_us for run in runs),
                        "errors": float(sum(run.errors for run in runs)),
                    },
                )
            for partitions in (1_000, 10_000):
                if (partitions, USUAL_CONNECTIONS) in cells:
                    yield self._share(build, partitions)

    def _share(self, build: str, partitions: int) -> Figure:
        base = self.median(build, (8, USUAL_CONNECTIONS), rate_of)
        runs = self.samples[build][partitions, USUAL_CONNECTIONS]
        shares = [run.puts_per_s / base for run in runs]
        return Figure(
            name=f"{build}: rate at {partitions:,} partitions / at 8",
            unit="x",
            values=shares,
            goal=f">= {SHARE_OF_8}",
            met=statistics.median(shares) >= SHARE_OF_8,
        )


def scale(plan: Plan) -> Iterator[Figure]:
    """Rates, CPU time and P99 at the full rate; P99 at half of it against a bare loop."""
    quick = plan.repeats == 1
    until_s = time.monotonic() + (QUICK_BUDGET_S if quick else BUDGET_S)
    once = replace(plan, seconds=QUICK_S if quick else RUN_S, repeats=1)
    found, latencies = Scale(), []
    for partitions in QUICK_PARTITIONS if quick else PARTITIONS:
        late = time.monotonic() > until_s
        if late and partitions == PARTITIONS[-1]:
            break
        detailed = partitions in DETAILED
        with arena(plan, builds_of(), partitions) as contenders:
            for number in range(plan.repeats):
                if number and time.monotonic() > until_s:
                    break
                for connections in CONNECTIONS if detailed else (USUAL_CONNECTIONS,):
                    for contender in in_turn(contenders, number):
                        run = contender.run(connections, rate=0.0, seconds=once.seconds)
                        found.add(contender.build.name, (partitions, connections), run)
            if detailed:
                short = once if time.monotonic() > until_s else replace(once, repeats=plan.repeats)
                latencies += half_rate(short, contenders, partitions, found)
    figures = [*found.figures(), *latencies]
    write(found, latencies, figures)
    yield from figures


def half_rate(
    plan: Plan, contenders: Sequence[Contender], partitions: int, found: Scale
) -> list[Figure]:
    """P99 of an open loop, in turn with a bare loop of append and fdatasync."""
    cell = (partitions, USUAL_CONNECTIONS)
    rates = {
        contender.build.name: SHARE_OF_RATE * found.median(contender.build.name, cell, rate_of)
        for contender in contenders
    }
    bare_ms: list[float] = []
    runs: dict[str, list[Sample]] = {}
    for number in range(plan.repeats):
        bare = disk.synced_append_latencies_s(plan.work, seconds=plan.seconds)
        bare_ms.append(bare[int(len(bare) * 0.99)] * 1e3)
        for contender in in_turn(contenders, number):
            name = contender.build.name
            run = contender.run(USUAL_CONNECTIONS, rate=rates[name], seconds=plan.seconds)
            runs.setdefault(name, []).append(run)
    bare_median = statistics.median(bare_ms)
    goal_ms = TIMES_BARE * bare_median
    return [
        Figure(
            name=f"{name}: P99 at {rates[name]:,.0f} puts/s, {partitions:,} partitions",
            unit="ms",
            values=[run.p99_ms for run in samples],
            goal=f"<= {goal_ms:.3g}",
            met=statistics.median(run.p99_ms for run in samples) <= goal_ms,
            notes={
                "bare_p99_ms": bare_median,
                "times_bare": statistics.median(run.p99_ms for run in samples) / bare_median,
                "server_us_per_put": statistics.median(run.cpu_us for run in samples),
                "errors": float(sum(run.errors for run in samples)),
            },
        )
        for name, samples in runs.items()
    ]


def page(found: Scale, latencies: Sequence[Figure]) -> str:
    """Tables with a column for each build: medians of rate, P99 and CPU time."""
    builds = list(found.samples)
    parts = []
    for head, cells in (
        ("partitions", [cell for cell in found.cells() if cell[1] == USUAL_CONNECTIONS]),
        ("partitions, connections", [cell for cell in found.cells() if cell[0] in DETAILED]),
    ):
        lines = [f"| {head} | {' | '.join(builds)} |", "| --- |" + " ---: |" * len(builds)]
        for cell in cells:
            name = f"{cell[0]:,}" if head == "partitions" else f"{cell[0]:,}, {cell[1]}"
            entries = [found.entry(build, cell) for build in builds]
            lines.append(f"| {name} | {' | '.join(entries)} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join([*parts, markdown(latencies)])


def write(found: Scale, latencies: Sequence[Figure], figures: Sequence[Figure]) -> None:
    """The tables and the pictures."""
    OUT.mkdir(parents=True, exist_ok=True)
    write_json(OUT / "scale.json", figures)
    (OUT / "scale.md").write_text(page(found, latencies))
    for name, text, of in (
        ("rate", "Synced puts a second", rate_of),
        ("p99", "P99 at the full rate, ms", p99_ms_of),
    ):
        logarithmic = name == "p99"
        labels = Labels(f"{text}, {USUAL_CONNECTIONS} connections", "partitions", logarithmic)
        lines = found.lines(of, connections=USUAL_CONNECTIONS)
        draw(lines, labels, OUT / f"scale_{name}_partitions.svg")
        for partitions in DETAILED:
            lines = found.lines(of, partitions=partitions)
            if not any(lines.values()):
                continue
            labels = Labels(f"{text}, {partitions:,} partitions", "connections", logarithmic)
            draw(lines, labels, OUT / f"scale_{name}_connections_{partitions}.svg")
