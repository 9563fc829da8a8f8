"""How nodes are read; what ZooKeeper makes of it is in tests/e2e/zookeeper."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.protocol.serialization import GetData, Transaction
from tests.waiting import eventually_async, stays_async

from opentalos.adapters.zookeeper.node_format import Content, Kind, encode_content
from opentalos.adapters.zookeeper.tree import READ_ATTEMPTS_MAX, ZookeeperTree
from opentalos.model.errors import StoreUnavailable
from opentalos.ports.meta_store import Session

BARRIER_S = 0.01


class Store:
    """One znode behind a connection; a barrier takes its time, and a read sees what is there."""

    def __init__(self) -> None:
        self.requests: list[type] = []
        self.incarnation = 1
        self.sessions_end = 0  # so many times after a barrier
        self.broken = False
        self.value = b"value"
        self.running = self.running_max = 0
        self.gate: asyncio.Event | None = None  # until then barriers take, instead of their time

    def session(self) -> Session:
        return Session(1e9, False, self.incarnation, True)

    async def read(self, *requests: Any) -> Any:
        self.requests += [type(request) for request in requests]
        if any(isinstance(request, Transaction) for request in requests):
            self.running += 1
            self.running_max = max(self.running, self.running_max)
            await (asyncio.sleep(BARRIER_S) if self.gate is None else self.gate.wait())
            self.running -= 1
            if self.broken:
                raise StoreUnavailable("no quorum")
            if self.sessions_end:
                self.sessions_end -= 1
                self.incarnation += 1
        stat = SimpleNamespace(version=3, numChildren=0, ephemeralOwner=0, mtime=1)
        return encode_content(Content(Kind.RECORD, b"n" * 12, self.value)), stat

    def count(self, kind: type) -> int:
        return self.requests.count(kind)


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def tree(store: Store) -> ZookeeperTree:
    return ZookeeperTree(store, "/root", 60.0)  # type: ignore[arg-type]


async def test_the_latest_node_is_read_after_a_quorum_has_answered(
    store: Store, tree: ZookeeperTree
) -> None:
    """A sync is answered by a leader that lost its quorum and does not know."""
    node = await tree.latest("a/b")
    assert node is not None
    assert (node.version, node.content.value) == (3, b"value")
    assert store.requests == [Transaction, GetData]
    await tree.node("a/b")
    assert store.requests[2:] == [GetData]


async def test_reads_at_once_share_a_write_and_one_runs_at_a_time(
    store: Store, tree: ZookeeperTree
) -> None:
    async def poll() -> None:
        for _ in range(50):
            await tree.latest("a")

    await asyncio.gather(*(poll() for _ in range(200)))
    assert store.count(GetData) == 200 * 50
    assert store.count(Transaction) <= 2 * 50 + 2
    assert store.running_max == 1


async def test_a_read_that_comes_during_a_write_waits_for_the_next(
    store: Store, tree: ZookeeperTree
) -> None:
    """The one that runs may have begun before the change that the read must see."""
    held = store.gate = asyncio.Event()
    first = asyncio.create_task(tree.latest("a"))
    await eventually_async("a write runs", lambda: store.count(Transaction) == 1)
    others = [asyncio.create_task(tree.latest("a")) for _ in range(3)]
    await stays_async("no further write runs", lambda: store.count(Transaction) == 1)
    following = store.gate = asyncio.Event()
    held.set()
    await first
    assert not any(other.done() for other in others)
    others.pop().cancel()
    store.value = b"newer"
    following.set()
    nodes = await asyncio.gather(*others)
    assert [node and node.content.value for node in nodes] == [b"newer"] * 2
    assert store.count(Transaction) == 2


async def test_every_reader_hears_of_a_failed_write_and_the_next_is_new(
    store: Store, tree: ZookeeperTree
) -> None:
    store.broken = True
    outcomes = await asyncio.gather(*(tree.latest("a") for _ in range(3)), return_exceptions=True)
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
    assert len({id(outcome) for outcome in outcomes}) == 3
    assert store.requests == [Transaction]
    store.broken = False
    assert await tree.latest("a") is not None


async def test_a_new_session_repeats_the_write_and_the_read(
    store: Store, tree: ZookeeperTree
) -> None:
    store.sessions_end = 1
    assert await tree.latest("a") is not None
    assert store.requests == [Transaction, GetData] * 2
    store.sessions_end = READ_ATTEMPTS_MAX
    with pytest.raises(StoreUnavailable):
        await tree.latest("a")
