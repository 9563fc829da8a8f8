"""A real server on a disk whose calls fail, whose syncs fail for good, and whose power is cut.

The preloaded recorder lets one call in forty fail for a while: EIO after half of the bytes, ENOSPC,
EFBIG, EMFILE, short writes, syncs that fail. The server must serve again by itself afterwards, and
the next power cut takes what a failed sync left. The checker judges all of it: nothing acknowledged
may be missing, but for the end of ``flushed`` topics. Every second process has a journal, whose
faults are those of all partitions.
"""

import os
import random
import sys
from pathlib import Path

from tests.power.power_load import PowerLoad
from tests.power.power_server import PowerServer
from tests.quiet_load import QuietLoad
from tests.waiting import elapse

from opentalos.testing.simulation.checks.checker import check
from opentalos.testing.simulation.history import History

ROUNDS = max(2, int(os.environ.get("OPENTALOS_POWER_CUTS", "5")) // 5)
SEED = int(os.environ.get("OPENTALOS_POWER_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
FAULTS_S = (0.3, 1.5)
QUIET = 40  # partitions that share the journal
SETTINGS = [f'[log]\njournal = "{on}"\njournal_bytes_max = 65_536\n' for on in ("on", "off")]


def test_a_disk_that_fails_and_then_loses_its_power_loses_nothing_acknowledged(
    tmp_path: Path,
) -> None:
    draw = random.Random(SEED)
    server = PowerServer(tmp_path / "server", settings=SETTINGS[0]).start()
    load = PowerLoad(server, tmp_path / "load")
    quiet = QuietLoad([server], tmp_path / "quiet", QUIET)
    try:
        load.start()
        quiet.start()
        for number in range(1, ROUNDS + 1):
            server.faults.touch()
            elapse("calls on the disk fail", draw.uniform(*FAULTS_S))
            server.faults.unlink()
            load.wait_progress()
            quiet.wait_progress()
            load.note_power_loss()
            server.cut_power(draw)
            server.settings = SETTINGS[number % 2]
            server.start()
            load.wait_progress()
            quiet.wait_progress()
        load.stop()
        quiet.stop()
        load.read_all(server, tmp_path / "final.jsonl")
        quiet.read_all(server, tmp_path / "quiet" / "final.jsonl")
        paths = load.paths(tmp_path / "final.jsonl") + list((tmp_path / "quiet").glob("*.jsonl"))
        anomalies = [str(each) for each in check(History.load(sorted(paths)))]
    except BaseException:
        sys.stdout.write(f"\nOPENTALOS_POWER_SEED={SEED}; the server said\n{server.stderr()}\n")
        raise
    finally:
        load.close()
        quiet.stop()
        server.kill()
    sys.stdout.write(
        f"\n| {ROUNDS} rounds of disk faults and power cuts (seed {SEED}): "
        f"{load.acknowledged()} puts acknowledged, {sum(quiet.answered)} to quiet partitions\n"
    )
    assert anomalies == []
    assert load.acknowledged() > 10 * ROUNDS, "hardly any load"
