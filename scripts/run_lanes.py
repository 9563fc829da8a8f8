"""Run test lanes and end with one line: ``N passed, N failed, N skipped``.

usage: run_lanes.py LANE...    (check, single; see LANES)

A lane is a list of jobs; two jobs run at a time. A lane that fails does not stop the next one. The
numbers are those of the pytest jobs; a job that is no test run (a linter) only turns the exit
status. A passing job prints one line, a failing one its whole output.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
REPORTS = ROOT / ".cache" / "reports"
JOBS_AT_ONCE = 2  # the size of the CI machine
JOB_TIMEOUT_S = 1500
RUNNING: set["subprocess.Popen[str]"] = set()


@dataclass(frozen=True)
class Job:
    """One command; ``tests`` says that it is a pytest run whose results are counted."""

    name: str
    argv: tuple[str, ...]
    tests: bool = False


@dataclass(frozen=True)
class Result:
    job: Job
    ok: bool
    passed: int = 0
    failed: int = 0
    skipped: int = 0


def tool(name: str, *argv: str) -> Job:
    return Job(name, (str(BIN / argv[0]), *argv[1:]))


def script(name: str, path: str, *argv: str) -> Job:
    return Job(name, (str(BIN / "python"), path, *argv))


def tests(name: str, *paths: str) -> Job:
    report = REPORTS / f"{name}.xml"
    argv = (str(BIN / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider")
    return Job(name, (*argv, f"--junitxml={report}", *paths), tests=True)


LANES: dict[str, tuple[Job, ...]] = {
    "check": (
        tests("mutants", "tests/simulation/test_mutants.py"),  # the longest job begins first
        tests("simulation", "tests/simulation", "--ignore=tests/simulation/test_mutants.py"),
        tool("types", "mypy"),
        tool("format", "ruff", "format", "--check", "."),
        tool("lint", "ruff", "check", "."),
        tool("layers", "lint-imports"),
        script("generated-thrift", "scripts/generate_thrift.py", "--check"),
        script("generated-reference", "scripts/generate_config_reference.py", "--check"),
        tests("unit", "tests/unit"),
        tests("contract", "tests/contract"),
    ),
    "single": (
        tests("e2e", "tests/e2e", "-m", "not backend"),
        tests("compat", "tests/compat", "-m", "not backend"),
    ),
}


def counts(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped test cases of a JUnit report; an error counts as failed."""
    passed = failed = skipped = 0
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        left_out = int(suite.get("skipped", 0))
        failed += bad
        skipped += left_out
        passed += int(suite.get("tests", 0)) - bad - left_out
    return passed, failed, skipped


def execute(job: Job) -> tuple[int, str]:
    """Exit status and output of a job; at its time limit it ends with all that it started."""
    try:
        process = subprocess.Popen(
            job.argv,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        return 1, str(error)
    RUNNING.add(process)
    try:
        output, _ = process.communicate(timeout=JOB_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        end(process)
        output, _ = process.communicate()
        return 1, f"{output}\nended after {JOB_TIMEOUT_S} s"
    finally:
        RUNNING.discard(process)
    return process.returncode, output


def end(process: "subprocess.Popen[str]") -> None:
    """Kill a job and the processes of its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run(job: Job) -> Result:
    """Run one job and print its outcome in one piece."""
    report = REPORTS / f"{job.name}.xml"
    report.unlink(missing_ok=True)
    started = time.monotonic()
    status, output = execute(job)
    took = time.monotonic() - started
    passed = failed = skipped = 0
    if job.tests:
        if report.exists():
            passed, failed, skipped = counts(report)
        failed += status != 0 and failed == 0  # crashed, or collected nothing
    ok = status == 0
    said = f"{passed + failed + skipped} tests, " if job.tests else ""
    line = f"{'ok  ' if ok else 'FAIL'} {job.name:<20} {said}{took:.1f} s"
    print(line if ok else f"{line}\n{output.rstrip()}\n", flush=True)
    return Result(job, ok, passed, failed, skipped)


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in LANES]
    if unknown or not names:
        print(f"usage: run_lanes.py LANE...; lanes: {', '.join(LANES)}", file=sys.stderr)
        return 2
    REPORTS.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    for name in names:
        print(f"== {name}", flush=True)
        with ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
            try:
                results += pool.map(run, LANES[name])
            except KeyboardInterrupt:
                pool.shutdown(wait=False, cancel_futures=True)
                for process in list(RUNNING):
                    end(process)
                return 130  # as a shell reports an interrupt
    broken = [result.job.name for result in results if not result.ok]
    if broken:
        print(f"failing jobs: {' '.join(broken)}")
    passed, failed, skipped = (
        sum(getattr(result, kind) for result in results) for kind in ("passed", "failed", "skipped")
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
