"""Run test lanes and end with one line: ``N passed, N failed, N skipped``.

usage: run_lanes.py [--whole] [--times N] [--load] [--record] LANE...

A lane is a list of jobs (``scripts/lanes/jobs.py``); ``gate`` is the one of ``tests/tiers.toml``,
and ``slice`` a part of what that leaves out, chosen by the commit. A job that fails does not stop
the others. The numbers are those of the pytest jobs; a job that is no test run (a linter) only
turns the exit status. A passing job prints one line, a failing one its whole output.

A test of real processes that failed only because something did not come in time runs once more,
alone; if it passes, the last lines name it, and ``.cache/reports/flaky.json`` says what it waited
for. More than three of these in one run fail the run, and tests/flaky.md says what comes next.

With ``--times`` all lanes run so many times, to find tests that fail now and then; with ``--load``
beside as many busy processes as there are cores. Without ``--whole`` simulations play the smaller
selection of ``make check``. ``--record`` keeps the durations for a release.
"""

import argparse
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Never

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # run as a file: scripts is no package of the environment

from scripts.lanes import jobs as lanes  # noqa: E402
from scripts.lanes import play, report, slices  # noqa: E402

TIMES_MAX = 100
FLAKY_MAX = 3  # repeated tests of one run


def interrupted(_number: int, _frame: object) -> Never:
    """Handle SIGTERM like Ctrl-C, so that child processes are stopped."""
    raise KeyboardInterrupt


def times(text: str) -> int:
    """How many times the lanes run. Raises: ValueError."""
    count = int(text)
    if not 1 <= count <= TIMES_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not in 1..{TIMES_MAX}")
    return count


def commit() -> str:
    """The hash of what is tested, which chooses the slice; without git always the same one."""
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def chosen_jobs(names: Sequence[str], whole: bool) -> list[lanes.Job]:
    """The jobs of these lanes, or of these names, in their order. Raises: KeyError."""
    tiers = lanes.read_tiers()
    found: list[lanes.Job] = []
    for name in names:
        if name.partition("-")[0] == lanes.GATE:
            found += (job for job in lanes.gate_jobs(tiers) if name in (lanes.GATE, job.name))
        elif name == lanes.SLICE:
            gate = {test for job in tiers["jobs"].values() for test in job["tests"]}
            kept = report.recorded(report.ALL)["tests"]
            found += slices.chosen(slices.all_pieces(kept, gate, tiers["outside"]), commit())
        else:
            given = lanes.LANES.get(name) or (lanes.job_named(name),)
            found += map(lanes.whole, given) if whole else given
    return found


def run_all(names: Sequence[str], count: int, whole: bool) -> list[report.Result]:
    """All lanes, ``count`` times, with backends from the first job on that needs them."""
    results: list[report.Result] = []
    backends = play.SharedBackends()
    quarantine = lanes.read_tiers()["quarantine"]
    end_s = 0.0
    try:
        for number in range(count):
            if count > 1:
                print(f"== round {number + 1} of {count}", flush=True)
            found = play.run_jobs(chosen_jobs(names, whole), backends, quarantine)
            results += [
                replace(item, start_s=item.start_s + end_s, end_s=item.end_s + end_s)
                for item in found
            ]
            end_s = max((item.end_s for item in results), default=0.0)
    finally:
        backends.kill()
    return results


def conclude(results: Sequence[report.Result], tier: str, count: int) -> int:
    """Print what the run says, its last line at the end; the exit status."""
    report.write_durations(results, report.REPORTS)
    flaky = [(name, what) for result in results for name, what in result.flaky.items()]
    (report.REPORTS / "flaky.json").write_text(json.dumps(dict(flaky), indent=1) + "\n")
    for line in report.summary(results, report.recorded(tier)):
        print(line)
    broken = Counter(result.job.name for result in results if not result.ok)
    if broken:
        counted = (
            f"{name} ({count} times)" if count > 1 else name for name, count in broken.items()
        )
        print(f"failing jobs: {' '.join(counted)}")
    for result in results:
        for name in result.quarantined:
            print(f"quarantine: {name} failed")
    for name, what in flaky:
        print(f"flaky: {name}: {what}")
    too_many = len(flaky) > FLAKY_MAX * count
    if too_many:
        print(f"{len(flaky)} tests passed only when repeated, at most {FLAKY_MAX} may")
    passed, failed, skipped = (
        sum(getattr(result, kind) for result in results) for kind in ("passed", "failed", "skipped")
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if broken or too_many else 0


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Run test lanes.")
    choices = (*lanes.LANES, lanes.GATE, lanes.SLICE)
    jobs = [*lanes.all_jobs(), *lanes.gate_jobs(lanes.read_tiers())]
    known = {*choices, *(job.name for job in jobs)}
    parser.add_argument("--times", type=times, default=1, metavar="N", help="rounds of all lanes")
    parser.add_argument("--load", action="store_true", help="beside busy processes")
    parser.add_argument("--whole", action="store_true", help="every seed, mutant and kill")
    parser.add_argument("--record", action="store_true", help="keep durations for a release")
    lane = f"{', '.join(choices)}; or the name of a job"
    parser.add_argument("lanes", nargs="+", metavar="LANE", help=lane)
    given = parser.parse_args(argv)
    if unknown := set(given.lanes) - known:
        parser.error(f"no lane or job has the name {unknown.pop()}; there are {lane}")
    report.REPORTS.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, interrupted)
    # Background jobs of a shell ignore Ctrl-C, which child processes would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with play.load(given.load):
            results = run_all(given.lanes, given.times, given.whole)
    except KeyboardInterrupt:
        return 130  # as a shell reports Ctrl-C
    tier = report.ALL if given.whole else report.GATE_TIER
    if given.record:
        report.record(tier, results)
    return conclude(results, tier, given.times)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
