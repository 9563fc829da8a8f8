"""A copy of the records below a prefix, kept current by a recursive watch."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping

from opentalos.adapters.zookeeper.connection import ZookeeperConnection
from opentalos.adapters.zookeeper.kazoo_client import AddWatch
from opentalos.adapters.zookeeper.tree import Node, ZookeeperTree
from opentalos.model.errors import StoreUnavailable
from opentalos.ports.meta_store import Record

RETRY_S = 1.0  # after a load that failed while connected
_log = logging.getLogger(__name__)


class RecordWatch:
    """One ``watch`` of the port. Reads run only while the caller waits for the next state.

    Every connection loads the whole state again, after the server caught up with its leader:
    changes may have been missed, and another server may lag behind what was shown.
    """

    def __init__(self, connection: ZookeeperConnection, tree: ZookeeperTree, prefix: str) -> None:
        self._connection, self._tree = connection, tree
        self.prefix = prefix
        self._start = f"{prefix}/" if prefix else ""
        self._changed: dict[str, None] = {}  # paths to read again
        self._stale = True  # read everything again
        self._state: dict[str, Record] = {}
        self._wakeup = asyncio.Event()
        self._ended = False

    def note_change(self, path: str) -> None:
        """A node changed; it is read when the caller wants the next state."""
        if path.startswith(self._start):
            self._changed[path] = None
            self._wakeup.set()

    def note_connection(self) -> None:
        """There is a new connection, which has no watches."""
        self._stale = True
        self._wakeup.set()

    def end(self) -> None:
        """Let the caller's loop end."""
        self._ended = True
        self._wakeup.set()

    async def states(self) -> AsyncIterator[Mapping[str, Record]]:
        """See the port."""
        await self._load()
        shown = self._state.copy()
        yield shown
        while not self._ended:
            try:
                await self._catch_up()
            except StoreUnavailable as error:
                _log.info("watch of %s interrupted: %s", self.prefix, error)
                await self._pause()
                continue
            # What was read before an interruption is shown after it.
            if self._state != shown:
                shown = self._state.copy()
                yield shown
            else:
                await self._wakeup.wait()

    async def _catch_up(self) -> None:
        self._wakeup.clear()
        await self._load()
        while self._changed and not self._stale:
            paths = list(self._changed)
            self._changed.clear()
            try:
                nodes = await self._tree.nodes(paths)
            except BaseException:
                self._changed.update(dict.fromkeys(paths))
                raise
            if not self._stale:
                for path in paths:
                    self._apply(path, nodes.get(path))

    async def _load(self) -> None:
        """Read everything if need be. The watch comes first, so that nothing falls between it and
        the reads; what was read over two connections may go back and is not used."""
        while self._stale:
            self._stale = False
            self._changed.clear()
            try:
                await self._connection.read(AddWatch(self._tree.znode(self.prefix)))
                nodes = await self._tree.below(self.prefix)
            except BaseException:
                self._stale = True
                raise
            if not self._stale:
                records = {path: _record(node) for path, node in nodes.items() if node.is_record}
                self._state = records

    def _apply(self, path: str, node: Node | None) -> None:
        if node is not None and node.is_record:
            self._state[path] = _record(node)
        else:
            self._state.pop(path, None)

    async def _pause(self) -> None:
        """Until there is a new connection or it is time to try again."""
        try:
            async with asyncio.timeout(RETRY_S):
                await self._wakeup.wait()
        except TimeoutError:
            return


def _record(node: Node) -> Record:
    return Record(node.content.value, node.version + 1, node.changed_ms)
