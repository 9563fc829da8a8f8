"""When a file that lost DataNodes is worth being continued in a new one. In virtual time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from tests.unit.conftest import VirtualLoop

from opentalos.adapters.hdfs.replicas import (
    DELAY_MAX_S,
    FIRST_S,
    OFFER_S,
    QUICK_MAX,
    WARN_S,
    Replicas,
)
from opentalos.model.errors import StoreUnavailable

SOON_S = 0.1


class Hdfs:
    """DataNodes that a new file gets, and when it was asked for them."""

    def __init__(self) -> None:
        self.nodes = 3
        self.takes_s = 0.0
        self.error: Exception | None = None
        self.asked_s: list[float] = []
        self.replicas = Replicas(3, self.ask)
        self.loop = asyncio.get_running_loop()
        self.began_s = self.loop.time()

    async def ask(self) -> int:
        self.asked_s.append(round(self.loop.time() - self.began_s, 3))
        await asyncio.sleep(self.takes_s)
        if self.error is not None:
            raise self.error
        return self.nodes

    def fails(self, file: str, replicas: int = 2) -> None:
        self.replicas.changed(file, replicas, fell=True)


def play(scenario: Callable[[Hdfs], Awaitable[None]]) -> None:
    async def run() -> None:
        hdfs = Hdfs()
        await scenario(hdfs)
        hdfs.replicas.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())


def test_a_short_file_is_thin_once_hdfs_has_more_datanodes() -> None:
    async def scenario(hdfs: Hdfs) -> None:
        hdfs.nodes = 2
        hdfs.fails("a")
        assert hdfs.replicas.short == 1
        await asyncio.sleep(FIRST_S + SOON_S)
        assert not hdfs.replicas.improves("a"), "no DataNode is spare"
        hdfs.nodes = 3
        await asyncio.sleep(2 * FIRST_S)
        assert hdfs.asked_s == [1, 3]
        assert hdfs.replicas.improves("a")
        hdfs.replicas.forget("a")
        assert not hdfs.replicas.improves("a")
        assert hdfs.replicas.short == 0
        await asyncio.sleep(100 * DELAY_MAX_S)
        assert hdfs.asked_s == [1, 3], "nobody is short"

    play(scenario)


def test_two_of_three_are_better_than_one() -> None:
    async def scenario(hdfs: Hdfs) -> None:
        hdfs.nodes = 2
        hdfs.fails("two")
        hdfs.fails("one", 1)
        await asyncio.sleep(FIRST_S + SOON_S)
        assert hdfs.replicas.improves("one")
        assert not hdfs.replicas.improves("two")

    play(scenario)


def test_an_offer_ends_with_the_next_failure_and_with_time() -> None:
    async def scenario(hdfs: Hdfs) -> None:
        hdfs.fails("a")
        await asyncio.sleep(FIRST_S + SOON_S)
        assert hdfs.replicas.improves("a")
        hdfs.takes_s = 2 * OFFER_S  # a DataNode that hangs
        hdfs.fails("b")
        assert not hdfs.replicas.improves("a"), "the node that failed may be counted"
        await asyncio.sleep(FIRST_S + 2 * OFFER_S + SOON_S)
        assert hdfs.replicas.improves("a")
        assert hdfs.replicas.improves("b")
        await asyncio.sleep(OFFER_S)
        assert not hdfs.replicas.improves("a")

    play(scenario)


def test_a_new_file_that_came_out_short_waits_for_another_offer() -> None:
    async def scenario(hdfs: Hdfs) -> None:
        hdfs.fails("a")
        await asyncio.sleep(FIRST_S + SOON_S)
        hdfs.replicas.forget("a")
        hdfs.replicas.changed("b", 2, fell=False)
        assert not hdfs.replicas.improves("b")
        rolls_s = []
        for _ in range(720):
            await asyncio.sleep(FIRST_S / 2)
            if hdfs.replicas.improves("b"):
                rolls_s.append(hdfs.loop.time())
                hdfs.replicas.forget("b")
                hdfs.replicas.changed("b", 2, fell=False)
        assert len(rolls_s) < 12, "in six minutes"

    play(scenario)


@pytest.mark.parametrize("error", [StoreUnavailable("no NameNode"), RuntimeError("no port error")])
def test_hdfs_is_asked_less_and_less_often(error: Exception) -> None:
    async def scenario(hdfs: Hdfs) -> None:
        hdfs.error = error
        hdfs.fails("a")
        await asyncio.sleep(250.0)
        assert hdfs.asked_s == [1, 3, 7, 15, 31, 63, 123, 183, 243]
        hdfs.fails("a", 1)  # another one
        await asyncio.sleep(FIRST_S + SOON_S)
        assert hdfs.asked_s[-1] == 251

    play(scenario)


def test_a_datanode_that_fails_all_the_time_costs_two_rolls_a_minute() -> None:
    async def scenario(hdfs: Hdfs) -> None:
        rolls = 0
        for _ in range(6_000):
            if not hdfs.replicas.short:
                hdfs.fails("a")
            await asyncio.sleep(FIRST_S / 2)
            if hdfs.replicas.improves("a"):
                rolls += 1
                hdfs.replicas.forget("a")
        minutes = 6_000 * FIRST_S / 2 / 60
        assert QUICK_MAX < rolls < QUICK_MAX + 2 * minutes + 7

    play(scenario)


def test_the_log_says_so_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def scenario(hdfs: Hdfs) -> None:
        for _ in range(3):
            hdfs.fails("a")
            await asyncio.sleep(FIRST_S + SOON_S)
            hdfs.replicas.forget("a")
        warned = [record for record in caplog.records if record.levelno == logging.WARNING]
        assert len(warned) == 1
        assert "has 2 DataNodes, [hdfs] replication is 3" in caplog.text
        assert "a new file gets 3 DataNodes: 1 open file" in caplog.text
        assert "no open file has too few DataNodes any more" in caplog.text
        await asyncio.sleep(WARN_S)
        hdfs.fails("a", 1)
        assert "has 1 DataNode," in caplog.text

    play(scenario)


def test_a_closed_store_asks_no_more() -> None:
    async def scenario(hdfs: Hdfs) -> None:
        hdfs.takes_s = 10.0
        hdfs.fails("a")
        await asyncio.sleep(FIRST_S + SOON_S)
        hdfs.replicas.close()
        await asyncio.sleep(DELAY_MAX_S)
        assert hdfs.asked_s == [1]
        assert not hdfs.replicas.improves("a")
        hdfs.fails("b")
        await asyncio.sleep(DELAY_MAX_S)
        assert hdfs.asked_s == [1]

    play(scenario)
