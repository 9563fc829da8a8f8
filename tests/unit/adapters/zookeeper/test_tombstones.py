"""When tombstones are swept: never by the clock of one machine alone."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.protocol.serialization import Delete, GetChildren

from opentalos.adapters.zookeeper import tree as tree_module
from opentalos.adapters.zookeeper.node_format import Content, Kind, encode_content
from opentalos.adapters.zookeeper.tree import ZookeeperTree

NOW_MS = int(time.time() * 1_000)
HOUR_MS, DAY_MS = 3_600_000, 86_400_000
NONCE = bytes(16)


class OneFolder:
    """A connection to a ZooKeeper with two nodes: a tombstone and a record."""

    def __init__(self, tombstone_ms: int, record_ms: int) -> None:
        self.changed_ms = {"gone": tombstone_ms, "kept": record_ms}
        self.deleted: list[str] = []

    async def read(self, *requests: Any) -> Any:
        last = requests[-1]
        if isinstance(last, GetChildren):
            return list(self.changed_ms)
        name = last.path.rsplit("/", 1)[-1]
        kind = Kind.RECORD if name == "kept" else Kind.TOMBSTONE
        stat = SimpleNamespace(
            version=3, numChildren=0, ephemeralOwner=0, mtime=self.changed_ms.get(name, 0)
        )
        return encode_content(Content(kind, NONCE, b"")), stat

    def tell(self, request: Any) -> None:
        assert isinstance(request, Delete)
        self.deleted.append(request.path)


@pytest.mark.parametrize(
    ("age_ms", "ahead_ms", "newest_ahead_ms", "swept"),
    [
        (2 * DAY_MS, 0, 0, True),
        (HOUR_MS, 0, 0, False),
        (HOUR_MS, 8 * DAY_MS, 0, False),  # this server's clock is ahead
        (HOUR_MS, 0, 8 * DAY_MS, False),  # ZooKeeper's was ahead once
    ],
    ids=["old", "young", "ahead", "was-ahead"],  # the same in each run, whatever the time is
)
async def test_a_tombstone_is_old_only_by_both_clocks(
    monkeypatch: pytest.MonkeyPatch, age_ms: int, ahead_ms: int, newest_ahead_ms: int, swept: bool
) -> None:
    wall_s = (NOW_MS + ahead_ms) / 1_000
    monkeypatch.setattr(tree_module, "time", SimpleNamespace(time=lambda: wall_s))
    connection: Any = OneFolder(NOW_MS - age_ms, NOW_MS + newest_ahead_ms)
    tree = ZookeeperTree(connection, "/talos", 86_400.0)
    assert await tree.names("topics") == ["kept"]
    assert connection.deleted == (["/talos/topics/gone"] if swept else [])
