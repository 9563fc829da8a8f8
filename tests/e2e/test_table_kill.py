"""A server killed with SIGKILL while the third-party SDS client mutates a table with two streams.

``make test`` kills five times, ``make faults`` fifty (OPENTALOS_KILLS).
"""

import os
import random
import time
from pathlib import Path

import pytest
from tests.server_process import ServerProcess
from tests.table_load import table_load

KILLS = int(os.environ.get("OPENTALOS_KILLS", "5"))
pytestmark = pytest.mark.timeout(240 + 15 * KILLS)

LOAD_S = (0.2, 1.0)  # between a restart and the next kill
PAUSE_S = 0.01  # between two calls of one thread


def test_streams_survive_kill_9_under_load(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "server").start()
    source = random.Random(0)

    def kill() -> None:
        server.kill()
        server.start()

    try:
        with table_load(
            [server], tmp_path / "load", "kill -9 of the server", PAUSE_S, last_harm=kill
        ) as load:
            for _ in range(KILLS):
                time.sleep(source.uniform(*LOAD_S))
                kill()
                load.wait_progress()
            assert load.answered() > 10 * KILLS, "hardly any load"
    finally:
        server.stop()
