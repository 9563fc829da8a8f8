"""Followers of a table's streams, each a thread that keeps a replica while servers come and go."""

import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tests.table_load import TableLoad
from tests.waiting import answering, eventually, limit_s

from opentalos.model.errors import Unavailable
from opentalos.sdk.stream import TableFollower
from opentalos.sdk.sync.client import Client
from opentalos.sdk.tables import TalosTable


class Follower(threading.Thread):
    """Follows until ``end``; then it has every change that was made before."""

    def __init__(self, load: TableLoad, topic: str) -> None:
        super().__init__(name=f"follower of {topic}", daemon=True)
        self._load, self._topic = load, topic
        self._ending = threading.Event()
        self.began = threading.Event()  # or it failed
        self._problem: BaseException | None = None
        self.late = 0  # changes that came after a mark which they are older than
        self.rows: list[Any] = []

    def run(self) -> None:
        try:
            # A shard that moved gives no mark for 30 s, and each further move begins them again.
            config = replace(self._load.config(), deadline_s=limit_s())
            with TableFollower(config, self._load.table, self._topic) as follower:
                self.began.set()
                while not self._ending.is_set():
                    follower.step()
                eventually(f"{self.name} catches up", answering(follower.catch_up, Unavailable))
                self.rows = in_order(follower.replica.rows())
                self.late = follower.replica.counters.late
        except BaseException as error:  # raised by ``end``
            self._problem = error
            self.began.set()

    def end(self) -> None:
        """Wait for its replica; fail with what made it fail."""
        self._ending.set()
        eventually(f"{self.name} ends", lambda: not self.is_alive())
        if self._problem is not None:
            raise AssertionError(f"{self.name} failed") from self._problem


class Followers:
    """Those of one load."""

    def __init__(self, load: TableLoad) -> None:
        self._load = load
        self._running: list[Follower] = []

    def begin(self) -> None:
        """One more for each stream: a scan of the table, and what comes after it."""
        begun = [Follower(self._load, topic) for topic in self._load.streams]
        for item in begun:
            item.start()
        self._running += begun

    def wait_begun(self) -> None:
        """Wait until each has scanned the table."""
        for item in self._running:
            eventually(f"{item.name} has scanned the table", item.began.is_set)

    def check(self) -> None:
        """The table is no longer mutated: each has it."""
        with Client(self._load.config()) as client, TalosTable(client, self._load.table) as table:
            rows = in_order(table.scan())
        assert rows
        for item in self._running:
            item.end()
            assert item.rows == rows, item.name
            assert item.late == 0, f"{item.name}: {item.late} changes are older than a former mark"


def in_order(rows: Iterable[Any]) -> list[Any]:
    """By their keys."""
    return sorted(map(dict, rows), key=lambda row: (row["grp"], row["id"]))
