"""Power cuts under load of the third-party SDS client on a table with two streams.

As test_power_cuts.py, with a fifth of its cuts: a stream must have each change that was answered.
"""

import os
import random
import sys
from pathlib import Path

from tests.power.power_server import PowerServer
from tests.table_load import table_load
from tests.waiting import elapse

CUTS = max(1, int(os.environ.get("OPENTALOS_POWER_CUTS", "5")) // 5)
SEED = int(os.environ.get("OPENTALOS_POWER_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)

LOAD_S = (0.1, 0.8)  # between a restart and the next cut
PAUSE_S = 0.01  # between two calls of one thread


def test_streams_survive_power_cuts_under_load(tmp_path: Path) -> None:
    server = PowerServer(tmp_path / "server").start()
    draw = random.Random(SEED)

    def cut() -> None:
        server.cut_power(draw)
        server.start()

    sys.stdout.write(f"\nOPENTALOS_POWER_SEED={SEED}\n")
    try:
        fault = f"{CUTS + 1} power cuts"
        with table_load([server], tmp_path / "load", fault, PAUSE_S, last_harm=cut) as load:
            for _ in range(CUTS):
                elapse("the cut comes at a random time", draw.uniform(*LOAD_S))
                cut()
                load.wait_progress()
            assert load.answered() > 10 * CUTS, "hardly any load"
    finally:
        server.stop()
