"""Run test lanes and end with one line: ``N passed, N failed, N skipped``.

usage: run_lanes.py [--times N] [--load] LANE...
       (classes, quick, check, single, spark, backends, faults; see LANES)

A lane is a list of jobs. Two jobs run at a time, as far as the machine has the memory that they
may take: a free slot takes the next one in the order of the lanes, so the last job of a lane has
one of the next lane beside it. As long as there are any, the two are one with real backends and one
that keeps a core busy; then one of these and one that waits most of the time, for a server, a
timeout or a browser. Those with backends run one by one, since some kill and pause the backends:
one HDFS, ZooKeeper and HBase, started before the first of these jobs, ended after the last,
whatever happened, found by OPENTALOS_BACKENDS. A job that fails does not stop the others. The
numbers are those of the pytest jobs; a job that is no test run (a linter) only turns the exit
status. A passing job prints one line, a failing one its whole output.
The line says how much processor time the tests took, without the backends: what keeps a core busy,
and what waits. With ``--times`` all lanes run so many times, to find tests that fail now and then;
with ``--load`` beside as many busy processes as there are cores.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Never
from xml.etree import ElementTree

from opentalos.backends.fleet import Fleet
from opentalos.backends.places import BackendError

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / ".venv" / "bin"
REPORTS = ROOT / ".cache" / "reports"
BACKENDS = ROOT / ".cache" / "backends"
ADDRESSES = BACKENDS / "addresses.json"
JOBS_AT_ONCE = 2  # with a third one on two cores all took longer, and faults met their deadlines
LEFT_GB = 1.0  # of memory, for everything else on the machine
GB = 1 << 30
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container
PROCESSOR_TIME = "processor_s"  # a property of a report, see tests/conftest.py
JOB_TIMEOUT_S = 2700  # three times the longest, for a machine that is slower
FAULTS_TIMEOUT_S = 3600  # real time passes in each fault, and in no other job so much
FULL_FAULTS_TIMEOUT_S = 3 * 3600
TIMES_MAX = 100
BUSY = "while True: pass"
# Kept even where it is switched off: without it each process that a test starts compiles the
# package first, which takes as long as all its imports.
BYTE_CODE = {"PYTHONDONTWRITEBYTECODE": ""}
FIGURE = "| "  # lines of a passing job with this prefix are shown
RUNNING: set["subprocess.Popen[str]"] = set()


@dataclass(frozen=True)
class Job:
    """A command; with ``tests`` it is a pytest run whose results are counted.

    ``busy``: keeps a core busy; others wait most of the time. ``memory_gb``: at most, of all its
    processes, and of the backends if it needs them.
    """

    name: str
    argv: tuple[str, ...]
    tests: bool = False
    timeout_s: int = JOB_TIMEOUT_S
    backends: bool = False  # needs the real ones, to itself
    busy: bool = True
    memory_gb: float = 1.0


@dataclass(frozen=True)
class Result:
    job: Job
    ok: bool
    passed: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass(frozen=True)
class Counts:
    """What a JUnit report says of its test cases; an error counts as failed."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    processor_s: float = 0.0  # 0: unknown


def tool(name: str, *argv: str) -> Job:
    return Job(name, (str(BIN / argv[0]), *argv[1:]))


def script(name: str, path: str, *argv: str) -> Job:
    return Job(name, (str(BIN / "python"), path, *argv))


def suite(name: str, *paths: str, busy: bool = True, memory_gb: float = 1.0) -> Job:
    report = REPORTS / f"{name}.xml"
    argv: tuple[str, ...] = (str(BIN / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider")
    backends = "backend" in paths
    if backends:
        # The plugin is loaded last: its compilation failed once while a JVM was running.
        argv = (*argv, "-p", "no:hypothesispytest")
    argv = (*argv, f"--junitxml={report}", *paths)
    return Job(
        name, argv, tests=True, backends=backends, busy=busy and not backends, memory_gb=memory_gb
    )


def with_time(job: Job) -> Job:
    """As long as ``make faults`` may take, if that is what runs."""
    return replace(job, timeout_s=FULL_FAULTS_TIMEOUT_S if FULL_FAULTS else FAULTS_TIMEOUT_S)


FULL_FAULTS = os.environ.get("OPENTALOS_FAULTS") == "full"

HURTS_HDFS = "tests/e2e/hdfs"
YARN = "tests/spark/yarn"  # three more daemons, and the other jobs have their time limits

WITH_A_JOB_OF_ITS_OWN = tuple(
    f"--ignore=tests/simulation/test_{name}.py"
    for name in ("cluster_seeds", "cluster_mutants", "mutants")
)

# Two jobs of about the same length: the core, which runs in virtual time, and everything else.
UNIT_CORE = tuple(
    f"tests/unit/{name}"
    for name in ("log", "broker", "group", "catalog", "placement", "sds", "model", "wire")
)
UNIT_REST = ("tests/unit", *(f"--ignore={folder}" for folder in UNIT_CORE))

ON_THEIR_OWN = tuple(
    f"--ignore=tests/e2e/{name}"
    for name in ("sdk", "rest", "cli", "docs", "console", "kafka", "migrate")
)

# Each job has one Spark session, of 1.7 GB, and starts others, smaller ones; the longest first.
SPARK: dict[str, tuple[str, ...]] = {
    "spark-olap": ("olap", "dataframes", "billing", "quota", "lake"),
    "spark-pipelines": ("runner", "archive", "examples"),
    "spark-source": ("source", "sds", "cluster", "kubernetes", "test_session.py"),
    "spark-sink": ("sink", "kills"),
}


def spark_tests(name: str) -> Job:
    paths = (f"tests/spark/{part}" for part in SPARK[name])
    return suite(name, *paths, "-m", "not backend", memory_gb=3.0)


def waiting_tests(name: str, *paths: str, memory_gb: float = 1.0) -> Job:
    """Tests of servers and clients in processes of their own, which wait for each other."""
    return suite(name, *paths, busy=False, memory_gb=memory_gb)


def backend_tests(name: str, *paths: str, memory_gb: float) -> Job:
    return suite(name, *paths, "-m", "backend", memory_gb=memory_gb)


LANES: dict[str, tuple[Job, ...]] = {
    "quick": (
        tool("format", "ruff", "format", "--check", "."),
        tool("lint", "ruff", "check", "."),
        suite("unit", *UNIT_REST),
        suite("unit-core", *UNIT_CORE),
        tool("types", "mypy"),
        tool("layers", "lint-imports"),
        script("generated-thrift", "scripts/generate_thrift.py", "--check"),
        script("generated-kafka", "scripts/generate_kafka.py", "--check"),
        script("generated-reference", "scripts/generate_config_reference.py", "--check"),
        script("generated-states", "scripts/generate_state_pages.py", "--check"),
        script("vendored", "scripts/fetch_console_assets.py", "--check"),
    ),
    "check": (
        suite("cluster", "tests/simulation/test_cluster_seeds.py"),  # the longest jobs start first
        suite("mutants", "tests/simulation/test_mutants.py"),
        suite("cluster-mutants", "tests/simulation/test_cluster_mutants.py"),
        suite("simulation", "tests/simulation", *WITH_A_JOB_OF_ITS_OWN),
        suite("contract", "tests/contract", "tests/backends", "-m", "not backend"),
        script("leaves", "scripts/compile_leaves.py", "--test", "--if-possible"),
    ),
    "single": (
        waiting_tests("e2e-sdk", "tests/e2e/sdk"),
        waiting_tests("e2e", "tests/e2e", "-m", "not backend", *ON_THEIR_OWN, memory_gb=2.0),
        waiting_tests("e2e-kafka", "tests/e2e/kafka", "tests/e2e/migrate", "-m", "not backend"),
        waiting_tests("e2e-rest", "tests/e2e/rest"),
        waiting_tests("e2e-cli", "tests/e2e/cli", "tests/e2e/docs", memory_gb=1.5),
        waiting_tests("e2e-console", "tests/e2e/console", "-s", memory_gb=1.5),
        waiting_tests("compat", "tests/compat", "-m", "not backend", memory_gb=1.5),
        waiting_tests("power", "tests/power", "-s"),
    ),
    # First of all, for every job that starts a Spark session.
    "classes": (tool("spark-classes", "python", "-m", "tests.spark.java_classes"),),
    "spark": tuple(map(spark_tests, SPARK)),
    "backends": (
        backend_tests("contract-backends", "tests/contract", memory_gb=3.0),
        backend_tests(
            "e2e-backends", "tests/e2e", "tests/backends", f"--ignore={HURTS_HDFS}", memory_gb=4.5
        ),
        backend_tests("spark-backends", "tests/spark", f"--ignore={YARN}", memory_gb=6.0),
        backend_tests("spark-yarn", YARN, memory_gb=7.0),
    ),
    "faults": (
        backend_tests("e2e-hdfs", HURTS_HDFS, memory_gb=3.0),
        with_time(backend_tests("faults", "tests/faults", "-s", memory_gb=4.5)),
        with_time(suite("inputs", "tests/faults", "-s", "-m", "not backend", memory_gb=2.0)),
    ),
}


def counts(report: Path) -> Counts:
    """What a JUnit report says."""
    passed = failed = skipped = 0
    processor_s = 0.0
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        left_out = int(suite.get("skipped", 0))
        failed += bad
        skipped += left_out
        passed += int(suite.get("tests", 0)) - bad - left_out
        for given in suite.iterfind("properties/property"):
            if given.get("name") == PROCESSOR_TIME:
                processor_s += float(given.get("value", 0))
    return Counts(passed, failed, skipped, processor_s)


def execute(job: Job) -> tuple[int, str]:
    """Run a job; return exit status and output. A timeout kills the job and its children."""
    try:
        process = subprocess.Popen(
            job.argv,
            cwd=ROOT,
            env=os.environ
            | BYTE_CODE
            | ({"OPENTALOS_BACKENDS": str(ADDRESSES)} if job.backends else {}),
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


def run(job: Job) -> Result:
    """Run a job and print its outcome."""
    report = REPORTS / f"{job.name}.xml"
    report.unlink(missing_ok=True)
    started = time.monotonic()
    status, output = execute(job)
    took = time.monotonic() - started
    found, failed = Counts(), 0
    if job.tests:
        if report.exists():
            found = counts(report)
        failed = found.failed + (status != 0 and found.failed == 0)  # crashed, or no test
    ok = status == 0
    number = found.passed + failed + found.skipped
    said = f"{number} tests, {took:.1f} s" if job.tests else f"{took:.1f} s"
    computed = f", {found.processor_s:.0f} s of processor time" if found.processor_s else ""
    line = f"{'ok  ' if ok else 'FAIL'} {job.name:<20} {said}{computed}"
    figures = [shown for shown in output.splitlines() if shown.startswith(FIGURE)]
    more = ["", *figures] if ok else ["", output.rstrip(), ""]
    print(line + "\n".join(more), flush=True)
    return Result(job, ok, found.passed, failed, found.skipped)


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


def interrupted(_number: int, _frame: object) -> Never:
    """Handle SIGTERM like Ctrl-C, so that child processes are stopped."""
    raise KeyboardInterrupt


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


def run_jobs(jobs: Sequence[Job], backends: SharedBackends) -> list[Result]:
    """Start jobs in this order, each as soon as it has a slot."""

    def play(job: Job) -> Result:
        if job.backends:
            backends.start()
        return run(job)

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


def times(text: str) -> int:
    """How many times the lanes run. Raises: ValueError."""
    count = int(text)
    if not 1 <= count <= TIMES_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not in 1..{TIMES_MAX}")
    return count


def run_all(names: Sequence[str], count: int) -> list[Result]:
    """All lanes, ``count`` times, with backends from the first job on that needs them."""
    results: list[Result] = []
    backends = SharedBackends()
    try:
        for number in range(count):
            if count > 1:
                print(f"== round {number + 1} of {count}", flush=True)
            results += run_jobs([job for name in names for job in LANES[name]], backends)
    finally:
        backends.kill()
    return results


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="Run test lanes.")
    parser.add_argument("--times", type=times, default=1, metavar="N", help="rounds of all lanes")
    parser.add_argument("--load", action="store_true", help="beside busy processes")
    parser.add_argument("lanes", nargs="+", choices=LANES, metavar="LANE", help=", ".join(LANES))
    chosen = parser.parse_args(argv)
    REPORTS.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, interrupted)
    # Background jobs of a shell ignore Ctrl-C, which child processes would inherit.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with load(chosen.load):
            results = run_all(chosen.lanes, chosen.times)
    except KeyboardInterrupt:
        return 130  # as a shell reports Ctrl-C
    broken = Counter(result.job.name for result in results if not result.ok)
    if broken:
        counted = (
            f"{name} ({count} times)" if count > 1 else name for name, count in broken.items()
        )
        print(f"failing jobs: {' '.join(counted)}")
    passed, failed, skipped = (
        sum(getattr(result, kind) for result in results) for kind in ("passed", "failed", "skipped")
    )
    print(f"{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
