"""Thousands of calls of each official client that we can have: what a handful does not show.

Digests and signatures of every form pass, and connections that are kept for the next call.
"""

import sys
from dataclasses import replace
from typing import Any

import pytest
from tests.compat.conftest import Sdk

pytestmark = pytest.mark.timeout(300)

CALLS_MIN = 2_000
PROGRAM_TIMEOUT_S = 240.0  # ten seconds on a machine with nothing else to do
SEED = 1


def judge(counted: dict[str, Any], client: str) -> None:
    calls = sum(counted["calls"].values())
    sys.stdout.write(f"| {client}: {calls} calls, {counted['failed']} failures\n")
    assert counted["failures"] == []
    assert counted["failed"] == 0
    assert calls >= CALLS_MIN


def test_two_thousand_calls_of_the_python_sdk_all_work(sdk: Sdk) -> None:
    patient = replace(sdk, timeout_s=PROGRAM_TIMEOUT_S)
    counted = patient.run("many_calls", topic="many-calls", rounds=300, seed=SEED)[0]
    judge(counted, "talos-python3")


def test_two_thousand_calls_of_the_sds_client_all_work(sds: Sdk) -> None:
    patient = replace(sds, timeout_s=PROGRAM_TIMEOUT_S)
    counted = patient.run("many_rows", streams={}, shards=2, rounds=270, seed=SEED)[0]
    judge(counted, "galaxy-sdk-python3")
