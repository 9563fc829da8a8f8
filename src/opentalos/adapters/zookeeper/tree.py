"""Reads znodes as nodes of ours, one or many, and removes what is too old to matter."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import (
    Delete,
    GetChildren,
    GetData,
    Sync,
)

from opentalos.adapters.zookeeper.barrier import Barrier
from opentalos.adapters.zookeeper.connection import ZookeeperConnection
from opentalos.adapters.zookeeper.node_format import Content, Kind, decode_content
from opentalos.model.errors import StoreUnavailable

READS_AT_ONCE = 512  # nodes of one step of a walk
LOOK_AT_ONCE = 16  # nodes of one step of a search that ends at the first record
READ_ATTEMPTS_MAX = 3  # of one that a new session came between
SWEEP_MAX = 100  # nodes removed in one pass


class Node(NamedTuple):
    """A znode as it was read."""

    content: Content
    version: int  # of ZooKeeper, begins at 0
    children: int
    ephemeral: bool
    changed_ms: int  # by ZooKeeper's wall clock

    @property
    def is_record(self) -> bool:
        """Whether readers of the port see it."""
        return self.content.kind is Kind.RECORD


class ZookeeperTree:
    """The nodes below one root; paths are those of the port, the empty one is the root."""

    def __init__(self, connection: ZookeeperConnection, root: str, tombstone_s: float) -> None:
        self._connection, self._root = connection, root
        self._barrier = Barrier(connection, root)
        self._tombstone_ms = tombstone_s * 1000
        self._newest_ms = 0  # of all changes seen: ZooKeeper's clock was at least there

    def znode(self, path: str) -> str:
        """The znode of a path."""
        return f"{self._root}/{path}" if path else self._root

    def path(self, znode: str) -> str:
        """The path of a znode at or below the root."""
        return znode[len(self._root) + 1 :]

    async def latest(self, path: str) -> Node | None:
        """The node, not older than this call: see Barrier. Raises: StoreUnavailable."""
        session = self._connection.session
        for _ in range(READ_ATTEMPTS_MAX):
            began = session().incarnation
            await self._barrier.passed()
            node = await self.node(path)
            if session().incarnation == began:  # a new session may see less than the one before
                return node
        raise StoreUnavailable("the session with ZooKeeper ends again and again")

    async def node(self, path: str) -> Node | None:
        """The node, not older than anything that this session saw before."""
        znode = self.znode(path)
        try:
            data, stat = await self._connection.read(GetData(znode, None))
        except NoNodeError:
            return None
        content = decode_content(znode, data or b"")
        ephemeral = stat.ephemeralOwner != 0
        self._newest_ms = max(self._newest_ms, stat.mtime)
        return Node(content, stat.version, stat.numChildren, ephemeral, stat.mtime)

    async def nodes(self, paths: Sequence[str]) -> dict[str, Node]:
        """Those of the nodes that exist."""
        found: dict[str, Node] = {}
        for start in range(0, len(paths), READS_AT_ONCE):
            some = paths[start : start + READS_AT_ONCE]
            read = await asyncio.gather(*map(self.node, some))
            found.update((path, node) for path, node in zip(some, read, strict=True) if node)
        return found

    async def below(self, path: str) -> dict[str, Node]:
        """All nodes below, as new as a ``sync`` makes it. Old tombstones among them are swept."""
        await self._connection.read(Sync(self.znode(path)))
        found: dict[str, Node] = {}
        parents = [path]
        while parents:
            level = await self.nodes(await self._children(parents))
            found.update(level)
            parents = [child for child, node in level.items() if node.children]
        await self.sweep(found)
        return found

    async def names(self, path: str) -> list[str]:
        """Direct children that are records or have records below; as new as by a ``sync``."""
        await self._connection.read(Sync(self.znode(path)))
        children = await self._children([path])
        nodes = await self.nodes(children)
        names = [
            child.rsplit("/", 1)[-1]
            for child, node in nodes.items()
            if await self._holds(child, node)
        ]
        await self.sweep(nodes)
        return sorted(names)

    async def sweep(self, nodes: dict[str, Node]) -> None:
        """Remove some of the nodes that have been empty for long, by both clocks.

        Versions of a node that is removed begin again, so an early removal is no small harm: it
        takes the clock of this server and that of ZooKeeper to be wrong at once.
        """
        before_ms = min(time.time() * 1000, self._newest_ms) - self._tombstone_ms
        old = [
            (path, node)
            for path, node in nodes.items()
            if not node.is_record and not node.children and node.changed_ms < before_ms
        ]
        for path, node in old[:SWEEP_MAX]:
            self._connection.tell(Delete(self.znode(path), node.version))

    async def _children(self, parents: Sequence[str]) -> list[str]:
        lists = await asyncio.gather(*map(self._child_names, parents))
        return [
            f"{parent}/{name}" if parent else name
            for parent, names in zip(parents, lists, strict=True)
            for name in names
        ]

    async def _child_names(self, path: str) -> Iterable[str]:
        try:
            names: list[str] = await self._connection.read(GetChildren(self.znode(path), None))
        except NoNodeError:
            return ()
        return names

    async def _holds(self, path: str, node: Node) -> bool:
        """Whether there is a record at or below the node."""
        if node.is_record or not node.children:
            return node.is_record
        children = await self._children([path])
        for start in range(0, len(children), LOOK_AT_ONCE):
            nodes = await self.nodes(children[start : start + LOOK_AT_ONCE])
            for child, child_node in nodes.items():
                if await self._holds(child, child_node):
                    return True
        return False
