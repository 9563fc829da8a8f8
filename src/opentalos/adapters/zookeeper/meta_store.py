"""MetaStore on ZooKeeper."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.protocol.serialization import Create, Delete, GetChildren, SetData, Transaction
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from opentalos.adapters.store_path import check_meta_path, check_meta_prefix, check_meta_value
from opentalos.adapters.zookeeper.access import close_open_nodes
from opentalos.adapters.zookeeper.connection import Address, ZookeeperConnection
from opentalos.adapters.zookeeper.kazoo_client import RemoveWatches
from opentalos.adapters.zookeeper.node_format import NONCE_BYTES, Content, Kind, encode_content
from opentalos.adapters.zookeeper.tree import Node, ZookeeperTree
from opentalos.adapters.zookeeper.watch import RecordWatch
from opentalos.model.errors import (
    AlreadyExists,
    BadRequest,
    ConfigError,
    OutcomeUnknown,
    StoreUnavailable,
    VersionConflict,
)
from opentalos.model.limits import ZookeeperLimits
from opentalos.ports.meta_store import Record, Session

CREATE_ATTEMPTS_MAX = 8  # a create that others keep overtaking is not done
_EPHEMERAL = 1  # flag of a create request
_NEW = -1  # ZooKeeper's version of a node that does not exist yet


class ZookeeperMetaStore:
    """MetaStore below one znode. A record's version is ZooKeeper's plus one.

    A removed record stays as a tombstone, so that its version keeps growing; tombstones older
    than ``tombstone_s`` are swept. Ephemeral records are ephemeral znodes and leave nothing.
    """

    def __init__(self, address: Address, limits: ZookeeperLimits) -> None:
        self._address = address
        self._connection = ZookeeperConnection(address, limits)
        self._tree = ZookeeperTree(self._connection, address.root, limits.tombstone_s)
        self._restricted = bool(limits.auth)
        self._acl = CREATOR_ALL_ACL if limits.auth else OPEN_ACL_UNSAFE
        self._watches: dict[RecordWatch, None] = {}
        self._connection.on_connected = self._connected
        self._connection.on_change = self._changed

    async def get(self, path: str) -> Record | None:
        """The record or None; see the port."""
        node = await self._tree.latest(check_meta_path(path))
        if node is None or not node.is_record:
            return None
        return Record(node.content.value, node.version + 1, node.changed_ms)

    async def create(self, path: str, value: bytes, *, ephemeral: bool = False) -> int:
        """Add a record, over a tombstone if there is one; see the port."""
        content = _record(check_meta_value(check_meta_path(path), value))
        for _ in range(CREATE_ATTEMPTS_MAX):
            try:
                return 1 + await self._create(path, content, ephemeral)
            except NoNodeError:
                await self._make_parents(path)
            except NodeExistsError:
                node = await self._tree.latest(path)
                if node is None:
                    continue
                if node.is_record:
                    raise AlreadyExists(path) from None
                try:
                    return 1 + await self._create_over(path, content, node, ephemeral)
                except (NoNodeError, BadVersionError):
                    continue
            except NoChildrenForEphemeralsError as error:
                raise BadRequest(f"record {path}: its parent is ephemeral") from error
        raise StoreUnavailable(
            f"could not change record {path}: too many concurrent changes; retry"
        )

    async def replace(self, path: str, value: bytes, expected: int) -> int:
        """Compare-and-set; see the port."""
        content = _record(check_meta_value(check_meta_path(path), value))
        try:
            return 1 + await self._set(path, content, expected - 1)
        except (NoNodeError, BadVersionError) as error:
            raise VersionConflict(f"record {path}: not at version {expected}") from error

    async def delete(self, path: str, expected: int) -> None:
        """Compare-and-remove; see the port."""
        node = await self._tree.latest(check_meta_path(path))
        if node is None or not node.is_record or node.version + 1 != expected:
            found = node.version + 1 if node is not None and node.is_record else 0
            raise VersionConflict(f"record {path}: version {found}, expected {expected}")
        try:
            if node.ephemeral:
                await self._remove(path, node)
            else:
                await self._set(path, Content(Kind.TOMBSTONE, _nonce(), b""), node.version)
        except (NoNodeError, BadVersionError) as error:
            raise VersionConflict(f"record {path}: not at version {expected}") from error

    async def children(self, path: str) -> Sequence[str]:
        """Names directly below ``path``; see the port."""
        return await self._tree.names(check_meta_prefix(path))

    async def watch(self, prefix: str) -> AsyncIterator[Mapping[str, Record]]:
        """Current state, then the latest states; ends when the store is closed; see the port."""
        watch = RecordWatch(self._connection, self._tree, check_meta_prefix(prefix))
        self._watches[watch] = None
        try:
            async for state in watch.states():
                yield state
        finally:
            del self._watches[watch]
            if all(other.prefix != watch.prefix for other in self._watches):
                self._connection.tell(RemoveWatches(self._tree.znode(watch.prefix)))

    def session(self) -> Session:
        """See the port."""
        return self._connection.session()

    async def close(self) -> None:
        """End the session: its ephemeral records go, its watches end."""
        for watch in self._watches:
            watch.end()
        await self._connection.close()

    async def open(self) -> None:
        """Connect and make the root. Raises: ConfigError, StoreUnavailable."""
        await self._connection.open()
        parts = self._address.root.split("/")
        for end in range(2, len(parts) + 1):
            await self._make_bare("/".join(parts[:end]))
        try:
            await self._connection.read(GetChildren(self._address.root, None))
        except StoreUnavailable as error:
            if isinstance(error.__cause__, NoAuthError):
                text = f"[zookeeper] auth: ZooKeeper refuses access to {self._address.root}"
                raise ConfigError(text) from error
            raise
        if self._restricted:
            await close_open_nodes(self._connection, self._address.root, self._acl)

    # --- writes, each resolved if its answer is lost --------------------------------------------

    async def _set(self, path: str, content: Content, expected: int) -> int:
        """Raises: BadVersionError, NoNodeError: not done."""
        request = SetData(self._tree.znode(path), encode_content(content), expected)
        try:
            stat = await self._connection.call(request)
        except OutcomeUnknown as error:
            return await self._settle(path, content, expected, error)
        return int(stat.version)

    async def _create(self, path: str, content: Content, ephemeral: bool) -> int:
        """Raises: NodeExistsError, NoNodeError, NoChildrenForEphemeralsError: not done."""
        flags = _EPHEMERAL if ephemeral else 0
        request = Create(self._tree.znode(path), encode_content(content), self._acl, flags)
        try:
            await self._connection.call(request)
        except OutcomeUnknown as error:
            return await self._settle(path, content, _NEW, error, ephemeral=ephemeral)
        return 0

    async def _create_over(self, path: str, content: Content, node: Node, ephemeral: bool) -> int:
        """Put a record where a tombstone or a parent is. Raises: BadVersionError, NoNodeError."""
        if not ephemeral:
            return await self._set(path, content, node.version)
        znode = self._tree.znode(path)
        request = Transaction(
            [
                Delete(znode, node.version),
                Create(znode, encode_content(content), self._acl, _EPHEMERAL),
            ]
        )
        try:
            results = await self._connection.call(request)
        except NotEmptyError as error:
            raise BadRequest(f"record {path}: has records below, cannot be ephemeral") from error
        except OutcomeUnknown as error:
            return await self._settle(path, content, _NEW, error, ephemeral=True)
        failed = [result for result in results if isinstance(result, KazooException)]
        if any(isinstance(error, NotEmptyError) for error in failed):
            raise BadRequest(f"record {path}: has records below, cannot be ephemeral")
        if failed:
            raise BadVersionError
        return 0

    async def _remove(self, path: str, node: Node) -> None:
        """Remove an ephemeral node. Raises: BadVersionError, NoNodeError: not done."""
        try:
            await self._connection.call(Delete(self._tree.znode(path), node.version))
        except OutcomeUnknown as error:
            found = await self._read_back(path, error)
            if found is None:
                return  # by this call or by the end of its session: it is gone
            if found.version == node.version and found.content.nonce == node.content.nonce:
                raise StoreUnavailable(f"record {path} was not removed") from error
            raise

    async def _settle(
        self,
        path: str,
        content: Content,
        expected: int,
        unknown: OutcomeUnknown,
        *,
        ephemeral: bool = False,
    ) -> int:
        """What became of a write without an answer; its version if it was applied.

        What one session sends is carried out in order, and nothing of a former connection after
        the first request of the next; so what this read does not show will not come any more.
        """
        node = await self._read_back(path, unknown)
        if node is not None and node.content.nonce == content.nonce:
            return node.version
        if node is None:
            if expected == _NEW and not ephemeral:
                raise NoNodeError from unknown  # a removed one would have left a tombstone
        elif not ephemeral:
            if node.version <= expected:
                raise StoreUnavailable(f"record {path} was not written") from unknown
            if node.version == expected + 1:  # another write came before this one
                raise (NodeExistsError if expected == _NEW else BadVersionError) from unknown
        raise unknown

    async def _read_back(self, path: str, unknown: OutcomeUnknown) -> Node | None:
        try:
            await self._connection.connected()
            return await self._tree.latest(path)
        except StoreUnavailable:
            raise unknown from None

    async def _make_parents(self, path: str) -> None:
        parts = path.split("/")
        for end in range(1, len(parts)):
            await self._make_bare(self._tree.znode("/".join(parts[:end])))

    async def _make_bare(self, znode: str) -> None:
        """Make a node that holds nothing, if it is not there."""
        try:
            await self._connection.read(Create(znode, b"", self._acl, 0))
        except NodeExistsError:
            return
        except NoNodeError as error:  # the one above was swept meanwhile
            raise StoreUnavailable(f"znode {znode}: its parent was removed") from error

    # --- called by the connection ---------------------------------------------------------------

    def _connected(self) -> None:
        for watch in self._watches:
            watch.note_connection()

    def _changed(self, znode: str) -> None:
        path = self._tree.path(znode)
        for watch in self._watches:
            watch.note_change(path)


def _nonce() -> bytes:
    return os.urandom(NONCE_BYTES)


def _record(value: bytes) -> Content:
    return Content(Kind.RECORD, _nonce(), bytes(value))


async def open_zookeeper_meta_store(url: str, limits: ZookeeperLimits) -> ZookeeperMetaStore:
    """A store whose session is open. Raises: ConfigError, StoreUnavailable: not reached in time."""
    store = ZookeeperMetaStore(Address.parse(url), limits)
    try:
        await store.open()
    except BaseException:
        await store.close()
        raise
    return store
