"""What jobs report: each test with its outcome and seconds, and how long a run took and why.

``tests/results.py`` writes a line per test; here they are read. ``durations.json`` below
``.cache/reports`` has the seconds of every job and test of the last run. Once per release
``run_lanes.py --record`` keeps those of ``make test`` and ``make test-all`` in
``tests/durations.json``: later runs are compared with them, and cut into slices by them.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from scripts.lanes.jobs import ROOT, Job

REPORTS = ROOT / ".cache" / "reports"
RECORDED = ROOT / "tests" / "durations.json"
GATE_TIER: Final = "gate"
ALL: Final = "all"
SLOWEST = 10
GROWTHS = 5
WARNED_S = 30 * 60.0
SLOT_GAP_S = 2.0  # a job that starts so soon after another one's end had waited for it


@dataclass(frozen=True)
class CaseResult:
    """One test of a run. ``wait_ended``: what it waited for, if only that failed."""

    name: str
    outcome: str  # passed, failed, skipped
    seconds: float = 0.0
    wait_ended: str = ""

    @property
    def function(self) -> str:
        return self.name.partition("[")[0]


@dataclass(frozen=True)
class Report:
    """What a test job wrote, complete or up to the crash of its process."""

    tests: Sequence[CaseResult] = ()
    processor_s: float = 0.0  # of the process and its children that ended; 0: unknown

    def names(self, outcome: str) -> list[str]:
        return [test.name for test in self.tests if test.outcome == outcome]


def read(path: Path) -> Report:
    """An absent file is an empty report."""
    tests: dict[str, CaseResult] = {}
    processor_s = 0.0
    if path.exists():
        for line in path.read_text().splitlines():
            given = json.loads(line)
            if "test" in given:
                name = given.pop("test")
                tests[name] = CaseResult(name, **given)
            else:
                processor_s = given["processor_s"]
    return Report(list(tests.values()), processor_s)


@dataclass(frozen=True)
class Result:
    """How a job ended. ``start_s`` and ``end_s`` count from the start of the run."""

    job: Job
    ok: bool
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    start_s: float = 0.0
    end_s: float = 0.0
    report: Report = field(default_factory=Report)
    flaky: Mapping[str, str] = field(default_factory=dict)  # what each waited for
    quarantined: Sequence[str] = ()  # tests that failed and gate nothing

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s


def critical_chain(results: Iterable[Result]) -> list[Result]:
    """The jobs that set the length: the last one, and each that the next one waited for."""
    left = sorted(results, key=lambda result: result.end_s)
    chain: list[Result] = []
    while left:
        last = left.pop()
        if not chain or 0 <= chain[0].start_s - last.end_s < SLOT_GAP_S:
            chain.insert(0, last)
    return chain


Durations = Mapping[str, Any]  # {"jobs": {job: s}, "tests": {job: {test function: s}}}


def durations(results: Iterable[Result]) -> Durations:
    """Seconds of jobs, and of test functions with all their cases."""
    jobs: dict[str, float] = {}
    tests: dict[str, dict[str, float]] = {}
    for result in results:
        jobs[result.job.name] = round(result.seconds, 1)
        functions = tests.setdefault(result.job.name, {})
        for test in result.report.tests:
            functions[test.function] = round(functions.get(test.function, 0.0) + test.seconds, 2)
    return {"jobs": jobs, "tests": {name: found for name, found in tests.items() if found}}


def write_durations(results: Iterable[Result], folder: Path) -> None:
    (folder / "durations.json").write_text(json.dumps(durations(results), indent=0) + "\n")


def recorded(tier: str, path: Path = RECORDED) -> Durations:
    """Those of the last release; empty ones if it kept none."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    found: Durations = kept.get(tier, {"jobs": {}, "tests": {}})
    return found


def record(tier: str, results: Iterable[Result], path: Path = RECORDED) -> None:
    """Keep them for the release, beside those of jobs that did not run now.

    Of the gate only its jobs are kept: slices are cut from what it leaves out.
    """
    kept = json.loads(path.read_text()) if path.exists() else {}
    before, now = kept.get(tier, {}), durations(results)
    kinds = ("jobs", "tests") if tier == ALL else ("jobs",)
    kept[tier] = {kind: {**before.get(kind, {}), **now[kind]} for kind in kinds}
    path.write_text(json.dumps(kept, indent=0) + "\n")


def shown_s(seconds: float) -> str:
    return f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def slowest_tests(results: Iterable[Result]) -> list[str]:
    """The slowest test functions."""
    by_job = durations(results)["tests"].values()
    tests = [(took, name) for functions in by_job for name, took in functions.items()]
    return [f"{took:7.1f} s  {name}" for took, name in sorted(tests, reverse=True)[:SLOWEST]]


def growths(results: Iterable[Result], before: Durations) -> list[str]:
    """The jobs that took longer than recorded, most first."""
    now = durations(results)["jobs"]
    more = {name: took - before["jobs"].get(name, 0.0) for name, took in now.items()}
    grown = sorted(more.items(), key=lambda item: -item[1])[:GROWTHS]
    return [f"{name} +{extra:.0f} s" for name, extra in grown if extra > 0]


def summary(results: Sequence[Result], before: Durations) -> list[str]:
    """What is printed at the end of a run, above its last line."""
    if not results:
        return []
    total_s = max(result.end_s for result in results)
    chain = critical_chain(results)
    lines = ["slowest tests:", *(f"  {line}" for line in slowest_tests(results))]
    lines.append(
        "the length was set by: "
        + ", then ".join(f"{result.job.name} ({result.seconds:.0f} s)" for result in chain)
    )
    lines.append(f"total: {shown_s(total_s)}")
    if total_s > WARNED_S:
        grown = growths(results, before)
        lines.append(f"warning: above {WARNED_S / 60:.0f} minutes; grown most: {', '.join(grown)}")
    return lines
