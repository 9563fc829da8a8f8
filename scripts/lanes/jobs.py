"""What there is to run: the lanes of ``make test-all``, and those of ``make test`` from
``tests/tiers.toml``.

A job with real backends has them to itself, since some tests kill and pause them. ``busy`` jobs
keep a core busy; others wait most of the time, for a server, a timeout or a browser.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = ROOT / ".venv" / "bin"
TIERS = ROOT / "tests" / "tiers.toml"
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.results")
# The plugin is loaded last: its compilation failed once while a JVM was running.
BESIDE_JAVA = ("-p", "no:hypothesispytest")
JOB_TIMEOUT_S = 2700  # three times the longest, for a machine that is slower
FAULTS_TIMEOUT_S = 3600  # real time passes in each fault, and in no other job so much
FULL_FAULTS_TIMEOUT_S = 3 * 3600
FULL_FAULTS = os.environ.get("OPENTALOS_FAULTS") == "full"
TIER = "OPENTALOS_TIER"  # see tests/tiers.py
WHOLE = {TIER: "all"}


@dataclass(frozen=True)
class Job:
    """A command; with ``tests`` it is a pytest run of these paths, whose results are counted.

    ``memory_gb``: at most, of all its processes, and of the backends if it needs them.
    ``repeats``: whether a test that only waited too long may run once more; see ``lanes/retry.py``.
    """

    name: str
    argv: tuple[str, ...]
    tests: tuple[str, ...] = ()  # paths and what to ignore of them, or names of tests
    timeout_s: int = JOB_TIMEOUT_S
    backends: bool = False  # needs the real ones, to itself
    busy: bool = True
    memory_gb: float = 1.0
    repeats: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> tuple[str, ...]:
        return (*self.argv, *self.tests)


def tool(name: str, *argv: str) -> Job:
    return Job(name, (str(BIN / argv[0]), *argv[1:]))


def script(name: str, path: str, *argv: str) -> Job:
    return Job(name, (str(BIN / "python"), path, *argv))


def suite(name: str, *paths: str, memory_gb: float = 1.0) -> Job:
    """Tests that compute: unit tests, contracts in memory, simulation. They never run twice."""
    argv = (str(BIN / "python"), *PYTEST, "-m", "not backend")
    return Job(name, argv, paths, memory_gb=memory_gb)


def waiting_tests(name: str, *paths: str, memory_gb: float = 1.0) -> Job:
    """Tests of servers and clients in processes of their own, which wait for each other."""
    return replace(suite(name, *paths, memory_gb=memory_gb), busy=False, repeats=True)


def spark_tests(name: str, *paths: str, memory_gb: float = 3.0) -> Job:
    """Each job has one Spark session, of 1.7 GB, and starts others, smaller ones."""
    return replace(suite(name, *paths, memory_gb=memory_gb), repeats=True)


def backend_tests(name: str, *paths: str, memory_gb: float) -> Job:
    job = waiting_tests(name, *paths, memory_gb=memory_gb)
    argv = (str(BIN / "python"), *PYTEST, *BESIDE_JAVA, "-m", "backend")
    return replace(job, argv=argv, backends=True)


def showing(job: Job) -> Job:
    """Its tests print figures, which pass on; see ``play.FIGURE``."""
    return replace(job, argv=(*job.argv, "-s"))


def with_time(job: Job) -> Job:
    """As long as ``make faults`` may take, if that is what runs."""
    return replace(job, timeout_s=FULL_FAULTS_TIMEOUT_S if FULL_FAULTS else FAULTS_TIMEOUT_S)


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

SPARK: dict[str, tuple[str, ...]] = {
    "spark-olap": ("olap", "dataframes", "billing", "quota", "lake"),
    "spark-pipelines": ("runner", "archive", "examples"),
    "spark-source": ("source", "sds", "cluster", "kubernetes", "test_session.py"),
    "spark-sink": ("sink", "kills"),
}

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
        suite("contract", "tests/contract", "tests/backends"),
        script("leaves", "scripts/compile_leaves.py", "--test", "--if-possible"),
    ),
    "single": (
        waiting_tests("e2e-sdk", "tests/e2e/sdk"),
        waiting_tests("e2e", "tests/e2e", *ON_THEIR_OWN, memory_gb=2.0),
        waiting_tests("e2e-kafka", "tests/e2e/kafka", "tests/e2e/migrate"),
        waiting_tests("e2e-rest", "tests/e2e/rest"),
        waiting_tests("e2e-cli", "tests/e2e/cli", "tests/e2e/docs", memory_gb=1.5),
        showing(waiting_tests("e2e-console", "tests/e2e/console", memory_gb=1.5)),
        waiting_tests("compat", "tests/compat", memory_gb=1.5),
        showing(waiting_tests("power", "tests/power")),
    ),
    # First of make test-all, for all sessions of Spark; the one of the gate would not earn it back.
    "classes": (tool("spark-classes", "python", "-m", "tests.spark.java_classes"),),
    "spark": tuple(
        spark_tests(name, *(f"tests/spark/{part}" for part in parts))
        for name, parts in SPARK.items()
    ),
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
        with_time(showing(backend_tests("faults", "tests/faults", memory_gb=4.5))),
        with_time(showing(spark_tests("inputs", "tests/faults", memory_gb=2.0))),
    ),
    "sanitize": (replace(script("sanitize", "scripts/sanitize.py"), memory_gb=2.0),),
}
GATE = "gate"  # the lane that tests/tiers.toml describes
SLICE = "slice"  # a part of what GATE leaves out


def all_jobs() -> list[Job]:
    return [job for jobs in LANES.values() for job in jobs]


def job_named(name: str) -> Job:
    """Raises: KeyError."""
    return {job.name: job for job in all_jobs()}[name]


def whole(job: Job) -> Job:
    """The job with every seed, kill and mutant."""
    return replace(job, environment={**job.environment, **WHOLE})


def read_tiers(path: Path = TIERS) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def gate_jobs(tiers: Mapping[str, Any]) -> list[Job]:
    """The jobs ``gate-NAME`` of ``[jobs.NAME]``: what of the real world each merge sees."""
    kinds = {"waits": waiting_tests, "spark": spark_tests, "backends": backend_tests}
    jobs = []
    for name, given in tiers["jobs"].items():
        make, memory_gb = kinds[given["kind"]], given["memory_gb"]
        job: Job = make(f"{GATE}-{name}", *given["tests"], memory_gb=memory_gb)
        jobs.append(replace(job, environment=given.get("environment", {})))
    return jobs


def selected(job: Job, tests: Sequence[str], name: str) -> Job:
    """The same kind of job for some of its tests only."""
    return whole(replace(job, name=name, tests=tuple(tests)))
