"""Runs jobs: two at a time, as far as the machine has the memory that they may take.

A free slot takes the next job in the order of the lanes, so the last job of a lane has one of the
next lane beside it. As long as there are any, the two are one with real backends and one that keeps
a core busy; then one of these and one that waits most of the time. Those with backends run one by
one: one HDFS, ZooKeeper and HBase, started before the first of these jobs, ended after the last,
whatever happened, found by OPENTALOS_BACKENDS.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path

from scripts.lanes.jobs import ROOT, Job
from scripts.lanes.report import REPORTS, CaseResult, Report, Result, read

from opentalos.backends.fleet import Fleet
from opentalos.backends.places import BackendError

BACKENDS = ROOT / ".cache" / "backends"
ADDRESSES = BACKENDS / "addresses.json"
JOBS_AT_ONCE = 2  # with a third one on two cores all took longer, and faults met their deadlines
LEFT_GB = 1.0  # of memory, for everything else on the machine
GB = 1 << 30
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container
REPEATED_MAX = 3  # in one job: more failures have another cause than one pause of the machine
BUSY = "while True: pass"
# Kept even where it is switched off: without it each process that a test starts compiles the
# package first, which takes as long as all its imports.
BYTE_CODE = {"PYTHONDONTWRITEBYTECODE": ""}
RESULTS = "OPENTALOS_RESULTS"  # where a job writes them; see tests/results.py
FIGURE = "| "  # lines of a passing job with this prefix are shown
RUNNING: set["subprocess.Popen[str]"] = set()


def execute(job: Job, results: Path | None = None) -> tuple[int, str]:
    """Run a job; return exit status and output. A timeout kills the job and its children."""
    given = {**BYTE_CODE, **job.environment}
    if job.backends:
        given["OPENTALOS_BACKENDS"] = str(ADDRESSES)
    if results is not None:
        given[RESULTS] = str(results)
    try:
        process = subprocess.Popen(
            job.command,
            cwd=ROOT,
            env=os.environ | given,
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
        output, _ = process.communicate(timeout=job.timeout_s)
    except subprocess.TimeoutExpired:
        end(process)
        output, _ = process.communicate()
        return 1, f"{output}\nended after {job.timeout_s} s"
    finally:
        RUNNING.discard(process)
    if process.returncode not in (0, 1):  # a signal or crash, which the output does not show
        output = f"{output}\nexit status {process.returncode}"
    return process.returncode, output


def end(process: "subprocess.Popen[str]") -> None:
    """Kill a job and the processes of its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def execute_tests(job: Job, name: str) -> tuple[int, str, Report]:
    """Run a job of tests, and read what it reports."""
    path = REPORTS / f"{name}.jsonl"
    path.unlink(missing_ok=True)
    status, output = execute(job, path)
    return status, output, read(path)


def repeatable(job: Job, status: int, failed: Sequence[CaseResult]) -> bool:
    """Whether all that went wrong is that a few waits ended."""
    few = 0 < len(failed) <= REPEATED_MAX
    return job.repeats and status == 1 and few and all(test.wait_ended for test in failed)


def alone(job: Job, test: CaseResult, number: int) -> bool:
    """Run one test once more, in a process and on servers of its own."""
    again = replace(job, tests=(test.name,))
    status, output, report = execute_tests(again, f"{job.name}.again{number}")
    passed = status == 0 and report.names("passed") == [test.name]
    if not passed:
        print(f"     again: {test.name}\n{output.rstrip()}", flush=True)
    return passed


def run(job: Job, quarantine: Collection[str] = ()) -> Result:
    """Run a job and print its outcome."""
    if not job.tests:
        status, output = execute(job)
        return said(Result(job, status == 0), output)
    status, output, report = execute_tests(job, job.name)
    failures = [test for test in report.tests if test.outcome == "failed"]
    held = [test.name for test in failures if test.function in quarantine]
    failed = [test for test in failures if test.name not in held]
    flaky: dict[str, str] = {}
    if repeatable(job, status, failed):
        flaky = {
            test.name: test.wait_ended
            for number, test in enumerate(failed)
            if alone(job, test, number)
        }
    count = len(failed) - len(flaky)
    if status != 0 and not failures:
        count = 1  # it crashed, or ran no test
    result = Result(
        job,
        ok=status == 0 or (status == 1 and bool(failures) and count == 0),
        passed=len(report.names("passed")) + len(flaky),
        failed=count,
        skipped=len(report.names("skipped")) + len(held),
        report=report,
        flaky=flaky,
        quarantined=held,
    )
    return said(result, output)


def said(result: Result, output: str) -> Result:
    """Print a line for a job that passed, all its output for one that failed."""
    job = result.job
    lines = [f"{'ok  ' if result.ok else 'FAIL'} {job.name:<20}"]
    if job.tests:
        lines[0] += f" {result.passed + result.failed + result.skipped} tests"
    if result.report.processor_s:
        lines[0] += f", {result.report.processor_s:.0f} s of processor time"
    lines += [f"     flaky: {name}: {what}" for name, what in result.flaky.items()]
    if not result.ok:
        lines += [output.rstrip(), ""]
    else:
        lines += [shown for shown in output.splitlines() if shown.startswith(FIGURE)]
    print("\n".join(lines), flush=True)
    return result


class SharedBackends:
    """Real backends below .cache, started by the first job that needs them."""

    def __init__(self) -> None:
        self._fleet = Fleet(BACKENDS / "homes")
        self._started = False

    def start(self) -> None:
        """Start fresh ones, unless they run; stop leftovers of an earlier run first."""
        if self._started:
            return
        self._started = True
        if BACKENDS.exists():
            self._fleet.kill()
            shutil.rmtree(BACKENDS)
        BACKENDS.mkdir(parents=True)
        try:
            self._fleet.start(say, brief=True)
            ADDRESSES.write_text(json.dumps(self._fleet.addresses(), indent=1))
        except BackendError as error:
            self._fleet.kill()
            say(f"FAIL {error}")  # each job then fails by itself, because the file is missing

    def kill(self) -> None:
        """End them; nothing happens if nothing was started."""
        if self._started:
            self._fleet.kill()


def say(text: str) -> None:
    print(f"     {text}", flush=True)


def memory_gb() -> float:
    """What jobs may take together on this machine, or in this container."""
    sizes = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with contextlib.suppress(OSError, ValueError):  # none, or "max"
        sizes.append(int(CGROUP_LIMIT.read_text()))
    return min(sizes) / GB - LEFT_GB


def startable(waiting: Sequence[Job], running: Collection[Job], room_gb: float) -> Job | None:
    """The next job: one with backends and one that computes; then one of these and one that waits.

    A job that alone is too large for the room runs alone.
    """
    if len(running) >= JOBS_AT_ONCE:
        return None
    left_gb = room_gb - sum(job.memory_gb for job in running)
    fitting = [job for job in waiting if not running or job.memory_gb <= left_gb]
    if any(job.backends for job in running):
        fitting = [job for job in fitting if not job.backends]
    # Whether the slot is for a busy one; else it is for one that waits.
    wanted = not any(job.busy for job in running)
    return min(fitting, key=lambda job: (not job.backends, job.busy != wanted), default=None)


def run_jobs(
    jobs: Sequence[Job], backends: SharedBackends, quarantine: Collection[str] = ()
) -> list[Result]:
    """Start jobs in this order, each as soon as it has a slot."""
    began = time.monotonic()

    def play(job: Job) -> Result:
        start_s = time.monotonic() - began
        if job.backends:
            backends.start()
        result = run(job, quarantine)
        return replace(result, start_s=start_s, end_s=time.monotonic() - began)

    waiting, running, results = list(jobs), dict[Future[Result], Job](), list[Result]()
    room_gb = memory_gb()
    with ThreadPoolExecutor(JOBS_AT_ONCE) as pool:
        try:
            while waiting or running:
                while job := startable(waiting, running.values(), room_gb):
                    waiting.remove(job)
                    running[pool.submit(play, job)] = job
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[future]
                    results.append(future.result())
        except KeyboardInterrupt:
            # A job that is about to start, and backends that are starting, end as well.
            while not all(future.done() for future in running):
                for process in list(RUNNING):
                    end(process)
                backends.kill()
                wait(running, timeout=0.5)
            raise
    return results


@contextlib.contextmanager
def load(wanted: bool) -> Iterator[None]:
    """Keep every core busy meanwhile, so that the lanes run on a loaded machine."""
    argv = (sys.executable, "-c", BUSY)
    busy = [subprocess.Popen(argv) for _ in range(wanted * (os.cpu_count() or 1))]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()
