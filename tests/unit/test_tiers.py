"""``make test`` keeps its promise: what is promised or supported has its proof there."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.lanes.jobs import BIN, LANES, gate_jobs, read_tiers
from scripts.lanes.slices import in_gate
from tests.unit.source_tree import ROOT, functions, tree_of

TIERS = read_tiers()
GATE = {name for job in TIERS["jobs"].values() for name in job["tests"]}
FLAKY = ROOT / "tests" / "flaky.md"
QUARANTINE_MAX = 5
BACKENDS = {"HDFS", "ZooKeeper", "HBase", "Spark"}


def rows(path: Path, heading: str) -> list[str]:
    """First cells of the table that follows a header."""
    lines = path.read_text().splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(heading))
    cells: list[str] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            return cells
        cells.append(line.split("|")[1].strip())
    return cells


def problems_of(name: str) -> Iterator[str]:
    """What is wrong with the name of a test."""
    path, _, test = name.partition("::")
    place = ROOT / path
    if not place.exists():
        yield f"{name}: there is no {path}"
    elif test:
        function = test.partition("[")[0]
        if function not in {node.name for node in functions(tree_of(place))}:
            yield f"{name}: {path} has no {function}"


def test_every_test_that_is_named_exists() -> None:
    names = [*GATE, *TIERS["quarantine"], *TIERS["outside"]]
    for proof in TIERS["proofs"].values():
        names += [*proof["real"], *proof.get("deterministic", ())]
    assert [problem for name in names for problem in problems_of(name)] == []


def test_every_promise_has_a_deterministic_and_a_real_proof() -> None:
    promises = re.findall(r"^\| \[(I\d+)\]", (ROOT / "docs/promises.md").read_text(), re.MULTILINE)
    assert len(promises) >= 9
    for promise in promises:
        assert TIERS["proofs"][promise]["deterministic"], promise
        assert TIERS["proofs"][promise]["real"], promise


@pytest.mark.parametrize("kind", ["clients", "backends"])
def test_every_client_and_backend_has_a_real_proof(kind: str) -> None:
    proofs = set(TIERS["proofs"])
    if kind == "backends":
        assert proofs >= BACKENDS
        return
    for client in rows(ROOT / "README.md", "| Client |"):
        assert any(client.startswith(proof) for proof in proofs), client


def test_a_proof_runs_in_make_test() -> None:
    left_out = [
        name
        for proof in TIERS["proofs"].values()
        for name in proof["real"]
        if not in_gate(name, GATE)
    ]
    assert left_out == []
    deterministic = ("tests/simulation/", "tests/unit/", "tests/contract/")
    for proof in TIERS["proofs"].values():
        assert all(name.startswith(deterministic) for name in proof.get("deterministic", ()))


def test_every_page_of_the_console_is_opened_in_make_test() -> None:
    pages = [
        f"{path.relative_to(ROOT)}::test_a_page_is_whole_and_accessible"
        for path in sorted((ROOT / "tests/e2e/console").glob("test_*.py"))
        if "def test_a_page_is_whole_and_accessible(" in path.read_text()
    ]
    assert len(pages) >= 5
    assert [page for page in pages if not in_gate(page, GATE)] == []


def test_quarantine_is_small_and_says_why() -> None:
    assert len(TIERS["quarantine"]) <= QUARANTINE_MAX
    said = FLAKY.read_text()
    assert [name for name in TIERS["quarantine"] if name not in said] == []


def test_every_test_of_real_processes_belongs_to_a_job() -> None:
    """Else neither ``make test-all`` nor a slice would run it."""
    paths = [path for lane in LANES.values() for job in lane for path in job.tests]
    folders = [path for path in paths if not path.startswith("--ignore=")]
    for path in (ROOT / "tests").rglob("test_*.py"):
        name = str(path.relative_to(ROOT))
        assert any(name == folder or name.startswith(f"{folder}/") for folder in folders), name


def test_jobs_of_the_gate_are_well_formed() -> None:
    jobs = gate_jobs(TIERS)
    known = {job.name for lane in LANES.values() for job in lane}
    assert not known & {job.name for job in jobs}, "one name, one report"
    assert all(job.argv[0] == str(BIN / "python") and job.tests for job in jobs)


def test_simulated_tests_wait_for_no_real_time() -> None:
    """Deterministic jobs never repeat a test, so nothing in them may depend on the machine."""
    for path in (ROOT / "tests/simulation").glob("*.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom):
                assert node.module != "tests.waiting", path
