"""Followers of a table's streams, each a thread that keeps a replica while servers come and go."""

import threading
from collections.abc import Iterable
from typing import Any

from tests.table_load import TableLoad

from opentalos.sdk.client import Client
from opentalos.sdk.stream import TableFollower
from opentalos.sdk.tables import TalosTable

END_TIMEOUT_S = 120.0  # a slice that moved gives no mark for 30 s


class Follower(threading.Thread):
    """Follows until ``end``; then it has every change that was made before."""

    def __init__(self, load: TableLoad, topic: str) -> None:
        super().__init__(name=f"follower of {topic}", daemon=True)
        self._load, self._topic = load, topic
        self._ending = threading.Event()
        self._problem: BaseException | None = None
        self.late = 0  # changes that came after a mark which they are older than
        self.rows: list[Any] = []

    def run(self) -> None:
        try:
            with TableFollower(self._load.config(), self._load.table, self._topic) as follower:
                while not self._ending.is_set():
                    follower.step()
                follower.catch_up()
                self.rows = in_order(follower.replica.rows())
                self.late = follower.replica.counters.late
        except BaseException as error:  # told by ``end``
            self._problem = error

    def end(self) -> None:
        """Wait for its replica; fail with what made it fail."""
        self._ending.set()
        self.join(END_TIMEOUT_S)
        assert not self.is_alive(), f"{self.name} has not caught up"
        if self._problem is not None:
            raise AssertionError(f"{self.name} failed") from self._problem


class Followers:
    """Those of one load."""

    def __init__(self, load: TableLoad) -> None:
        self._load = load
        self._running: list[Follower] = []

    def begin(self) -> None:
        """One more for each stream: a scan of the table as it is now, and what comes after it."""
        begun = [Follower(self._load, topic) for topic in self._load.streams]
        for one in begun:
            one.start()
        self._running += begun

    def check(self) -> None:
        """Nobody mutates the table any more: each has it."""
        with Client(self._load.config()) as client, TalosTable(client, self._load.table) as table:
            rows = in_order(table.scan())
        assert rows
        for one in self._running:
            one.end()
            assert one.rows == rows, one.name
            assert one.late == 0, f"{one.name}: {one.late} changes are older than a former mark"


def in_order(rows: Iterable[Any]) -> list[Any]:
    """By their keys."""
    return sorted(map(dict, rows), key=lambda row: (row["grp"], row["id"]))
