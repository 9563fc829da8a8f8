"""A real server on a disk whose calls fail, whose syncs fail for good, and whose power is cut.

The preloaded recorder lets one call in forty fail for a while: EIO after half of the bytes, ENOSPC,
EFBIG, EMFILE, short writes, syncs that fail. The server must serve again by itself afterwards, and
the next power cut takes what a failed sync left. The checker judges all of it: nothing acknowledged
may be missing, but for the end of ``flushed`` topics.
"""

import os
import random
import sys
import time
from pathlib import Path

import pytest
from tests.power.power_load import PowerLoad
from tests.power.power_server import PowerServer

from opentalos.testing.simulation.checks.checker import check

ROUNDS = max(1, int(os.environ.get("OPENTALOS_POWER_CUTS", "5")) // 5)
SEED = int(os.environ.get("OPENTALOS_POWER_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
FAULTS_S = (0.3, 1.5)
pytestmark = pytest.mark.timeout(240 + 30 * ROUNDS)


def test_a_disk_that_fails_and_then_loses_its_power_loses_nothing_acknowledged(
    tmp_path: Path,
) -> None:
    draw = random.Random(SEED)
    server = PowerServer(tmp_path / "server").start()
    load = PowerLoad(server, tmp_path / "load")
    try:
        load.start()
        for _ in range(ROUNDS):
            server.faults.touch()
            time.sleep(draw.uniform(*FAULTS_S))
            server.faults.unlink()
            load.wait_progress()
            load.note_power_loss()
            server.cut_power(draw)
            server.start()
            load.wait_progress()
        load.stop()
        load.read_all(server, tmp_path / "final.jsonl")
        anomalies = [str(each) for each in check(load.history(tmp_path / "final.jsonl"))]
    except BaseException:
        sys.stdout.write(f"\nOPENTALOS_POWER_SEED={SEED}; the server said\n{server.stderr()}\n")
        raise
    finally:
        load.close()
        server.kill()
    sys.stdout.write(
        f"\n| {ROUNDS} rounds of disk faults and power cuts (seed {SEED}): "
        f"{load.acknowledged()} puts acknowledged\n"
    )
    assert anomalies == []
    assert load.acknowledged() > 10 * ROUNDS, "hardly any load"
