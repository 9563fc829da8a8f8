"""Thousands of calls of each official client that we can have: what a handful does not show.

Digests and signatures of every form pass, and connections that are kept for the next call.
"""

import sys
from typing import Any

from tests.compat.conftest import Sdk

CALLS_MIN = 2_000
SEED = 1


def judge(counted: dict[str, Any], client: str) -> None:
    calls = sum(counted["calls"].values())
    sys.stdout.write(f"| {client}: {calls} calls, {counted['failed']} failures\n")
    assert counted["failures"] == []
    assert counted["failed"] == 0
    assert calls >= CALLS_MIN


def test_two_thousand_calls_of_the_python_sdk_all_work(sdk: Sdk) -> None:
    counted = sdk.run("many_calls", topic="many-calls", rounds=300, seed=SEED)[0]
    judge(counted, "talos-python3")


def test_two_thousand_calls_of_the_sds_client_all_work(sds: Sdk) -> None:
    counted = sds.run("many_rows", streams={}, shards=2, rounds=270, seed=SEED)[0]
    judge(counted, "galaxy-sdk-python3")
