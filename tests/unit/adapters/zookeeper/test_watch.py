"""What a watch shows when reads fail; what ZooKeeper does is in tests/e2e/zookeeper."""

from collections.abc import Sequence
from typing import Any

from tests.waiting import within_limit

from opentalos.adapters.zookeeper.node_format import Content, Kind
from opentalos.adapters.zookeeper.tree import Node
from opentalos.adapters.zookeeper.watch import RecordWatch
from opentalos.model.errors import StoreUnavailable


class Store:
    """One record, both the connection and the tree of a watch; some reads fail."""

    def __init__(self) -> None:
        self.value = b"1"
        self.fails = 0  # so many reads of changed nodes

    async def read(self, *_requests: Any) -> None:
        """A watch is added."""

    def znode(self, path: str) -> str:
        return f"/opentalos/{path}"

    def node(self) -> Node:
        return Node(Content(Kind.RECORD, b"n" * 12, self.value), int(self.value), 0, False, 1)

    async def below(self, _path: str) -> dict[str, Node]:
        return {"count": self.node()}

    async def nodes(self, paths: Sequence[str]) -> dict[str, Node]:
        if self.fails:
            self.fails -= 1
            raise StoreUnavailable("the connection broke")
        return dict.fromkeys(paths, self.node())


async def test_what_was_read_before_an_interruption_is_shown() -> None:
    """All is read again over a new connection; then it breaks, with a change noted meanwhile."""
    store = Store()
    watch = RecordWatch(store, store, "")  # type: ignore[arg-type]
    states = watch.states()
    assert (await anext(states))["count"].value == b"1"
    store.value, store.fails = b"2", 1

    async def below(_path: str) -> dict[str, Node]:
        found = {"count": store.node()}
        watch.note_change("count")  # whose read fails, and then finds what is known already
        return found

    store.below = below  # type: ignore[method-assign]
    watch.note_connection()
    async with within_limit("the next state is shown"):
        assert (await anext(states))["count"].value == b"2"
    assert not store.fails
