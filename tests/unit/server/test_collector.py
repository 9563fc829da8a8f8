"""The garbage collector of a server: what exists at the start is frozen, young objects are few."""

import json
import subprocess
import sys
from pathlib import Path

from opentalos.server.lifecycle import GC_THRESHOLDS

STALL_MAX_US = 5_000
# Of a block in the tail cache, the commonest object that outlives its put.
# Source: docs/internals/hot-path.md#rule-6.
YOUNG_OBJECT_US = 0.4
# In a process of its own, since it changes the collector and ends by a signal. Automatic
# collections are off, so that only the server's own one removes the cycle.
SERVER = """
import gc, json, os, signal, sys, weakref
from pathlib import Path
from opentalos.server.config import Config
from opentalos.server.lifecycle import run_server

class Cycle:
    pass

def ready(url):
    found = gc.get_threshold(), gc.get_freeze_count() / alive, garbage() is None
    print(json.dumps(found))
    os.kill(os.getpid(), signal.SIGTERM)

gc.disable()
cycle = Cycle()
cycle.itself, garbage = cycle, weakref.ref(cycle)
del cycle
alive = len(gc.get_objects())
config = Config().with_server(data=sys.argv[1], listen="127.0.0.1:0")
run_server(config, ("AKTEST", "c2VjcmV0"), ready)
"""


def test_a_server_that_serves_has_collected_its_garbage_and_frozen_the_rest(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SERVER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    thresholds, frozen_share, collected = json.loads(done.stdout)
    assert tuple(thresholds) == GC_THRESHOLDS
    assert frozen_share > 0.9, "a collection of all generations would visit what never dies"
    assert collected, "garbage of the start was frozen too"


def test_a_collection_of_young_objects_is_no_stall_of_the_loop() -> None:
    young, middle, _ = GC_THRESHOLDS
    assert young * YOUNG_OBJECT_US <= STALL_MAX_US / 2
    assert young * middle >= 1_000_000, "old objects are visited more often"
