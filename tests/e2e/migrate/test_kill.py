"""Migrations, sources and targets that are killed: no message is lost, none comes twice."""

import random
import subprocess

import pytest
from tests.e2e.migrate.conftest import Pair, contents, records_of
from tests.waiting import elapse, eventually, limit_s

BLOCKS = 1_200  # of three messages, in two partitions
RATE_MIB = "0.02"  # so that a copy takes some seconds
SLOW_MIB = "0.01"  # so that it is far from its end at each kill
KILLS = 6
KILL_S = 0.6  # at most after the state was stored


def filled(pair: Pair) -> None:
    pair.create("orders", 2)
    for partition in (0, 1):
        pair.fill("orders", BLOCKS // 2, partition, data="x" * 40)


def stored(pair: Pair) -> int:
    path = pair.folder / "talos-migrate.json"
    return path.stat().st_mtime_ns if path.exists() else 0


def wait_copying(pair: Pair, process: "subprocess.Popen[str]", before: int) -> None:
    """It has stored its state, or has ended."""

    def seen() -> bool:
        return stored(pair) != before or process.poll() is not None

    eventually("the migration stores its state", seen)


def judge(pair: Pair) -> None:
    for partition in (0, 1):
        found = contents(records_of(pair.target, "orders", partition))
        assert len(found) == BLOCKS // 2 * 3
        assert found == contents(records_of(pair.source, "orders", partition))
    pair.checked()


def test_a_migration_killed_again_and_again_copies_each_message_once(pair: Pair) -> None:
    filled(pair)
    draw = random.Random(60)
    killed = 0
    for _ in range(KILLS):
        before = stored(pair)
        process = pair.start("--rate", SLOW_MIB)
        wait_copying(pair, process, before)
        elapse("the kill comes at any time of the copy", draw.uniform(0, KILL_S))
        process.kill()
        process.communicate(timeout=limit_s())
        killed += process.returncode == -9
    assert killed >= KILLS // 2
    pair.run()
    judge(pair)


def test_a_lost_state_file_of_a_copied_topic_is_an_error_not_a_second_copy(pair: Pair) -> None:
    pair.create("orders")
    pair.fill("orders", 3)
    pair.run()
    (pair.folder / "talos-migrate.json").unlink()
    _, err = pair.run(status=1)
    assert "pass the --state of the migration that made it" in err
    assert len(records_of(pair.target, "orders")) == 9


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_server_killed_during_the_copy_delays_it(pair: Pair, side: str) -> None:
    filled(pair)
    server = pair.source if side == "source" else pair.target
    before = stored(pair)
    process = pair.start("--rate", RATE_MIB, "--outage", f"{limit_s():.0f}")
    for _ in range(2):
        wait_copying(pair, process, before)
        before = stored(pair)
        server.kill()
        server.start()
    out, err = process.communicate(timeout=limit_s())
    assert process.returncode == 0, out + err
    judge(pair)


def test_a_target_that_stays_away_is_an_error_and_the_next_run_continues(pair: Pair) -> None:
    filled(pair)
    process = pair.start("--rate", RATE_MIB, "--outage", "2")
    wait_copying(pair, process, 0)
    pair.target.kill()
    _, err = process.communicate(timeout=limit_s())
    assert process.returncode == 1
    assert "run the same command again" in err
    assert "Traceback" not in err
    pair.target.start()
    pair.run()
    judge(pair)
