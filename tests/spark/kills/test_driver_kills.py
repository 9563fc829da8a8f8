"""A Spark query that copies a topic while its driver, its tasks or its server are killed.

The copy is judged as the plain SDK reads it, and nothing is de-duplicated.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server_process import ServerProcess
from tests.spark.conftest import TalosServer
from tests.spark.kills.copying import Copying
from tests.spark.kills.pausing_sink import FAIL_TASKS, PAUSE_COMMIT
from tests.waiting import elapse

KILLS = int(os.environ.get("OPENTALOS_KILLS", "2"))
FIRST_BATCHES_S = 2.0  # within so long after a life's first commit it is killed
pytestmark = pytest.mark.timeout(900 + 120 * KILLS)  # twenty in ``make faults``


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TalosServer]:
    """One of its own: some tests kill it."""
    process = ServerProcess(tmp_path / "server").start()
    try:
        yield TalosServer(process)
    finally:
        process.kill()


def test_kill_9_of_drivers_loses_and_repeats_nothing(server: TalosServer, tmp_path: Path) -> None:
    copying, chance, replays = Copying(server, "killed", tmp_path), random.Random(1), 0
    for number in range(KILLS):
        copying.top_up()
        with copying.life() as life:
            if number % 2:  # at any time
                life.wait_for("another batch is committed", copying.gone_on())
                elapse("the kill falls anywhere in a batch", chance.uniform(0.0, FIRST_BATCHES_S))
            else:  # after the puts, before Spark writes down that they are done
                with copying.flag(PAUSE_COMMIT):
                    paused = tmp_path / f"paused-{copying.batches()}"
                    life.wait_for("a commit pauses", paused.exists)
            life.kill(workers=number % 4 < 2)
        replays += copying.replayed_next()
    copying.copy_the_rest()
    copying.check()
    assert replays >= (KILLS + 1) // 2, "most kills fell between two batches, which shows nothing"


def test_tasks_that_fail_after_their_puts_store_nothing_twice(
    server: TalosServer, tmp_path: Path
) -> None:
    copying = Copying(server, "retried", tmp_path)
    copying.produce(1_500)
    with copying.flag(FAIL_TASKS):
        copying.copy_the_rest()
    copying.check()
    assert len(list(tmp_path.glob("failed-*"))) >= copying.batches() > 0


def test_kill_9_of_the_server_under_a_query_loses_and_repeats_nothing(
    server: TalosServer, tmp_path: Path
) -> None:
    copying, chance = Copying(server, "served", tmp_path), random.Random(2)
    with copying.life() as life:
        for _ in range(max(KILLS, 2)):
            copying.top_up()
            life.wait_for("another batch is committed", copying.gone_on())
            elapse("the kill falls anywhere in a batch", chance.uniform(0.0, FIRST_BATCHES_S))
            server.process.kill()
            server.process.start()
        life.wait_for("the copy is whole", copying.whole)
    copying.check()
