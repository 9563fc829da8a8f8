"""Which jobs run beside each other, which failures are repeated, and what a slice holds."""

import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from scripts.lanes import play, slices
from scripts.lanes.jobs import (
    LANES,
    ROOT,
    Job,
    backend_tests,
    gate_jobs,
    job_named,
    selected,
    suite,
    waiting_tests,
    whole,
)
from scripts.lanes.play import SharedBackends, run, run_jobs, startable
from scripts.lanes.report import Result, read, record, recorded
from tests.waiting import limit_s

ROOM_GB = 8.0


def job(name: str, *, busy: bool = True, memory_gb: float = 1.0) -> Job:
    return Job(name, (), busy=busy, memory_gb=memory_gb)


def with_backends(name: str) -> Job:
    return Job(name, (), backends=True, busy=False, memory_gb=3.0)


def test_the_backends_are_for_one_job_at_a_time() -> None:
    hdfs, faults = with_backends("hdfs"), with_backends("faults")
    unit, layers = job("unit"), job("layers")
    assert startable([unit, hdfs, faults], [], ROOM_GB) is hdfs
    assert startable([unit, faults], [hdfs], ROOM_GB) is unit
    assert startable([layers, faults], [unit], ROOM_GB) is faults
    assert startable([faults], [hdfs], ROOM_GB) is None
    assert startable([layers], [hdfs, unit], ROOM_GB) is None


def test_a_job_that_computes_has_one_that_waits_beside_it() -> None:
    hdfs, sdk, rest = with_backends("hdfs"), job("sdk", busy=False), job("rest", busy=False)
    unit, types = job("unit"), job("types")
    assert startable([sdk, unit, types], [hdfs], ROOM_GB) is unit
    assert startable([types, sdk], [unit], ROOM_GB) is sdk
    assert startable([rest, types], [sdk], ROOM_GB) is types
    assert startable([types], [unit], ROOM_GB) is types
    assert startable([rest], [sdk], ROOM_GB) is rest


def test_jobs_beside_each_other_fit_into_the_memory() -> None:
    hdfs, spark, unit = with_backends("hdfs"), job("spark", memory_gb=3.0), job("unit")
    assert startable([spark, unit], [hdfs], 5.0) is unit
    assert startable([spark, unit], [hdfs], 6.0) is spark
    assert startable([spark, unit], [], 2.0) is spark, "alone it runs in any case"


class NoBackends(SharedBackends):
    """Counts how often they were wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = 0

    def start(self) -> None:
        self.wanted += 1


def test_a_free_slot_takes_a_job_of_the_next_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    """The long job of the first lane ends only when one of the second lane has run."""
    done = threading.Event()

    def ran(what: Job, _quarantine: object) -> Result:
        if what.name == "long":
            assert done.wait(limit_s()), "the second lane waited for the first"
        if what.name == "second":
            done.set()
        return Result(what, ok=True, passed=1)

    monkeypatch.setattr(play, "run", ran)
    backends = NoBackends()
    jobs = [with_backends("long"), job("short"), job("second"), with_backends("last")]
    results = run_jobs(jobs, backends)
    assert {result.job.name for result in results} == {"long", "short", "second", "last"}
    assert backends.wanted == 2
    assert all(0 <= result.start_s <= result.end_s for result in results)


def test_a_job_learns_where_backends_and_results_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENTALOS_BACKENDS", raising=False)
    monkeypatch.delenv("OPENTALOS_TIER", raising=False)
    names = ("OPENTALOS_BACKENDS", "OPENTALOS_RESULTS", "OPENTALOS_TIER")
    code = f"import os; print(*map(os.environ.get, {names}))"
    argv = (sys.executable, "-c", code)
    assert play.execute(Job("unit", argv)) == (0, "None None None\n")
    path = tmp_path / "x"
    found = play.execute(whole(Job("hdfs", argv, backends=True)), path)
    assert found == (0, f"{play.ADDRESSES} {path} all\n")


FAILING = """
import os
from pathlib import Path
from tests.waiting import WaitEnded

def test_is_late_once() -> None:
    flag = Path(os.environ["FLAG"])
    if not flag.exists():
        flag.touch()
        raise WaitEnded("not after 1 s: the group settles")

def test_passes() -> None:
    pass
"""
WRONG = "\ndef test_is_wrong() -> None:\n    assert 1 == 2\n"


@pytest.fixture
def failing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A test file whose first test is late once; in the tree, so that its name leads to it."""
    monkeypatch.setenv("FLAG", str(tmp_path / "flag"))
    monkeypatch.setattr(play, "REPORTS", tmp_path)
    (ROOT / ".cache").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / ".cache") as folder:
        path = Path(folder) / "test_failing.py"
        path.write_text(FAILING)
        yield path.relative_to(ROOT)


def pytest_job(path: Path, *, repeats: bool) -> Job:
    return (waiting_tests if repeats else suite)("failing", str(path))


def test_a_wait_that_ended_is_repeated_alone(failing: Path) -> None:
    result = run(pytest_job(failing, repeats=True))
    assert (result.ok, result.passed, result.failed) == (True, 2, 0)
    ((name, what),) = result.flaky.items()
    assert name.endswith("::test_is_late_once")
    assert what == "not after 1 s: the group settles"


def test_a_deterministic_job_is_never_repeated(failing: Path) -> None:
    result = run(pytest_job(failing, repeats=False))
    assert (result.ok, result.passed, result.failed) == (False, 1, 1)


def test_nothing_is_repeated_beside_a_wrong_value(failing: Path) -> None:
    (ROOT / failing).write_text(FAILING + WRONG)
    result = run(pytest_job(failing, repeats=True))
    assert (result.ok, result.passed, result.failed) == (False, 1, 2)
    assert not result.flaky


def test_a_quarantined_failure_gates_nothing(failing: Path) -> None:
    (ROOT / failing).write_text(WRONG)
    (name,) = [test.function for test in run(pytest_job(failing, repeats=True)).report.tests]
    result = run(pytest_job(failing, repeats=True), [name])
    assert (result.ok, result.failed, result.skipped) == (True, 0, 1)
    assert result.quarantined == [name]


def test_a_report_that_a_crash_cut_counts_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({"test": "a", "outcome": "passed", "seconds": 1.5}) + "\n")
    (test,) = read(path).tests
    assert (test.name, test.outcome, test.seconds) == ("a", "passed", 1.5)
    assert read(tmp_path / "absent").tests == []


def test_durations_are_kept_by_tier(tmp_path: Path) -> None:
    path = tmp_path / "durations.json"
    record("gate", [Result(job("a"), True, end_s=2.0)], path)
    record("all", [Result(job("b"), True, end_s=3.0)], path)
    assert recorded("gate", path) == {"jobs": {"a": 2.0}}
    record("all", [Result(job("c"), True, end_s=4.0)], path)
    assert recorded("all", path) == {"jobs": {"b": 3.0, "c": 4.0}, "tests": {}}


def test_slices_hold_each_test_that_the_gate_leaves_out_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(slices, "exists", lambda name: not name.endswith("gone"))
    kept = {
        "e2e-sdk": {f"tests/e2e/sdk/test_a.py::test_{n}": 50.0 for n in range(5)},
        "e2e-rest": {"tests/e2e/rest/test_b.py::test_gone": 1.0, "tests/out/x.py::test_y": 1.0},
        "faults": {"tests/faults/test_c.py::test_long": 400.0,
                   "tests/faults/test_c.py::test_d": 9.0},
    }  # fmt: skip
    gate = {"tests/e2e/sdk/test_a.py::test_0"}
    pieces = slices.all_pieces(kept, gate, ["tests/out"])
    held = [name for piece in pieces for name in piece.tests]
    left = [f"tests/e2e/sdk/test_a.py::test_{n}" for n in range(1, 5)]
    assert held == [*left, "tests/faults/test_c.py::test_d"]
    assert [piece.name for piece in pieces] == [
        "slice-e2e-sdk-1", "slice-e2e-sdk-2", "slice-faults-1",
    ]  # fmt: skip
    assert all(piece.environment["OPENTALOS_TIER"] == "all" for piece in pieces)
    seen = {one.name for number in range(4) for one in slices.chosen(pieces, f"{number:012x}")}
    assert seen == {piece.name for piece in pieces}, "some commits cover all"
    assert len(slices.chosen(pieces, "")) == 3, "one with backends, two without"


def test_few_commits_cover_all_pieces() -> None:
    faults, sdk = (job_named(name) for name in ("faults", "e2e-sdk"))
    pieces = [replace(faults, name=f"b{n}") for n in range(5)]
    pieces += [replace(sdk, name=f"o{n}") for n in range(9)]
    turns = [slices.chosen(pieces, f"{number:012x}") for number in range(5)]
    assert sorted(one.name for turn in turns for one in turn) == sorted(it.name for it in pieces)
    assert all(sum(one.backends for one in turn) == 1 and len(turn) <= 3 for turn in turns)
    few = slices.chosen(pieces[:1] + pieces[5:], "")
    assert len(few) <= 3, "more turns if there are few with backends"
    assert slices.chosen([], "abc") == []


def test_a_selected_job_keeps_its_options() -> None:
    faults = next(job for job in LANES["faults"] if job.name == "faults")
    piece = selected(faults, ["tests/x.py::test_y"], "slice")
    assert piece.command == (*faults.argv, "tests/x.py::test_y")
    assert piece.backends
    assert piece.timeout_s == faults.timeout_s


def test_the_gate_names_kinds_of_jobs() -> None:
    given = {"kind": "backends", "memory_gb": 4.5, "tests": ["tests/contract"]}
    (made,) = gate_jobs({"jobs": {"cluster": {**given, "environment": {"A": "1"}}}})
    wanted = backend_tests("gate-cluster", "tests/contract", memory_gb=4.5)
    assert made == replace(wanted, environment={"A": "1"})
