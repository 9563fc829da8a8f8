"""A server killed with SIGKILL while the third-party SDS client mutates a table with two streams.

``make test`` kills twice, ``make test-all`` five times, ``make faults`` fifty times
(OPENTALOS_KILLS).
"""

import os
import random
from pathlib import Path

from tests.server_process import ServerProcess
from tests.table_load import TableLoad, table_load
from tests.waiting import elapse, eventually

KILLS = int(os.environ.get("OPENTALOS_KILLS", "5"))
LOAD_S = (0.2, 1.0)  # between the answers after a restart and the next kill
ANSWERS = 11  # before a kill, of each round
PAUSE_S = 0.01  # between two calls of one thread


def wait_answered(load: TableLoad, count: int) -> None:
    what = f"{count} mutations are answered"
    eventually(what, lambda: load.answered() >= count, state=load.answered)


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
            for number in range(KILLS):
                wait_answered(load, ANSWERS * (number + 1))
                elapse("the kill comes at any time", source.uniform(*LOAD_S))
                kill()
                load.wait_progress()
            assert load.answered() > 10 * KILLS, "hardly any load"
    finally:
        server.stop()
