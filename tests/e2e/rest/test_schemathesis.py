"""Schemathesis against a real server: every route, every check, and it finds nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR
from tests import tiers
from tests.e2e.rest.client import rest
from tests.e2e.rest.schemathesis_hooks import ANOTHER
from tests.e2e.rest.schemathesis_hooks import TABLE as PROBE_NAME
from tests.server_process import ROOT_KEY, ServerProcess
from tests.waiting import limit_s, scale

from opentalos.gateway.rest.routes import TABLE
from opentalos.gateway.rest.routing.openapi import document

HERE = Path(__file__).parent
SEED = 5
RUN_S = 100  # of a whole run on a quiet machine; what it cannot begin by then is left out
SHOWN_CHARACTERS = 6_000
PROBE = {
    "name": PROBE_NAME,
    "key": ["0"],
    "columns": {"0": "string", "1": "int64"},
}


def test_the_document_is_valid_openapi_3_1() -> None:
    assert list(OPENAPI_31_VALIDATOR.iter_errors(document(TABLE))) == []


def test_schemathesis_finds_nothing(server: ServerProcess, tmp_path: Path) -> None:
    made = rest(server, "POST", "tables", PROBE)
    assert made.status == 201, made
    made = rest(server, "POST", "principals", {"id": ANOTHER})  # what is changed instead of root
    assert made.status == 201, made
    run_s = RUN_S * scale()
    # Fuzzing and stateful tests repeat until the time is over; the coverage phase ends by itself.
    much = ("--max-time", f"{run_s:.0f}") if tiers.WHOLE else ("--phases", "coverage")
    command = [
        str(Path(sys.executable).parent / "schemathesis"),
        "--config-file", str(HERE / "schemathesis.toml"),
        "run", f"{server.url}/rest/v1/openapi.json",
        "--auth", f"{ROOT_KEY.key_id}:{ROOT_KEY.secret}",
        "--checks", "all", "--seed", str(SEED), *much,
        "--continue-on-failure", "--generation-database", "none", "--no-color",
    ]  # fmt: skip
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=run_s + limit_s(),  # more, for what it began
        check=False,
        cwd=tmp_path,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": "tests.e2e.rest.schemathesis_hooks",
            "PYTHONPATH": str(HERE.parent.parent.parent),
        },
    )
    assert found.returncode == 0, found.stdout[-SHOWN_CHARACTERS:] + found.stderr
    tested = re.search(r"Tested: (\d+)", found.stdout)
    assert tested is not None, found.stdout
    assert int(tested[1]) == len(TABLE.routes) - 1  # it does not call the document itself
    assert "Traceback" not in server.stderr()
