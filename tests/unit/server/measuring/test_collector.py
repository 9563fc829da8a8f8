"""The garbage collector of a server: what exists at the start is frozen, young objects are few."""

import asyncio
import gc
import json
import sys
import time
from pathlib import Path

import pytest
from tests.waiting import completed

from opentalos.server.measuring import collector
from opentalos.server.measuring.collector import (
    DUE_AFTER,
    GROWTH_MAX,
    THRESHOLDS,
    CalmCollector,
    is_due,
)

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
    done = completed(command, check=True)
    thresholds, frozen_share, collected = json.loads(done.stdout)
    assert tuple(thresholds) == THRESHOLDS
    assert frozen_share > 0.9, "a collection of all generations would visit what never dies"
    assert collected, "garbage of the start was frozen too"


def test_no_automatic_collection_is_a_stall_of_the_loop() -> None:
    young, middle, full = THRESHOLDS
    assert young * (middle + 2) * YOUNG_OBJECT_US <= STALL_MAX_US
    assert full >= 1_000_000_000, "a full collection visits all that was opened since the start"


@pytest.mark.parametrize(
    ("young", "growth", "busy", "due"),
    [
        (DUE_AFTER - 1, 1.0, 0.0, False),  # nothing is to be expected
        (DUE_AFTER, 1.0, 0.0, True),
        (DUE_AFTER, 1.0, 0.5, False),  # callers would wait for it
        (DUE_AFTER * 3 // 2, 1.0, 0.4, True),
        (2 * DUE_AFTER, 1.0, 1.0, True),  # a server that is always busy
        (0, 1.4, 0.0, False),
        (0, 1.6, 0.0, True),
        (0, 2.0, 0.9, False),  # as when many partitions are opened
        (0, GROWTH_MAX, 1.0, True),
        (0, 0.2, 0.0, False),
    ],
)
def test_a_full_collection_waits_for_a_calm_moment_but_not_for_ever(
    young: int, growth: float, busy: float, due: bool
) -> None:
    assert is_due(young, growth, busy) is due


class Heap:
    """What the collector asks of the interpreter, and how often it collected everything."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.young, self.blocks, self.cpu_s, self.full = 7, 1_000, 0.0, 0
        monkeypatch.setattr(gc, "get_stats", lambda: [{"collections": self.young}])
        monkeypatch.setattr(gc, "collect", self.collect)
        monkeypatch.setattr(sys, "getallocatedblocks", lambda: self.blocks)
        monkeypatch.setattr(time, "thread_time", lambda: self.cpu_s)

    def collect(self) -> int:
        self.full += 1
        return 0


async def test_full_collections_come_at_calm_moments_once_for_each_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heap = Heap(monkeypatch)
    calm = CalmCollector()
    calm.start()
    await asyncio.sleep(10.5)
    assert heap.full == 0
    heap.young += DUE_AFTER
    for _ in range(20):
        heap.cpu_s += 0.3  # of each second
        await asyncio.sleep(1)
    assert heap.full == 0
    await asyncio.sleep(20)
    assert heap.full == 1
    heap.blocks *= 2
    await asyncio.sleep(20)
    assert heap.full == 2
    calm.stop()
    heap.young += 2 * DUE_AFTER
    await asyncio.sleep(20)
    assert heap.full == 2


async def test_an_interpreter_that_collects_in_increments_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(collector, "generational", lambda: False)
    heap = Heap(monkeypatch)
    calm = CalmCollector()
    calm.start()
    heap.young += 3 * DUE_AFTER
    await asyncio.sleep(20)
    assert heap.full == 0
    calm.stop()
