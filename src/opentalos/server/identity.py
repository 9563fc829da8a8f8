"""Checks that the three stores and the key belong to the same cluster.

Each store has a mark with the cluster's id. The MetaStore's record is created first and says
whether the marks in the other stores are complete: a mark that is missing later means that the
store lost its data or is a different one.
"""

import contextlib
import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from opentalos.broker.cluster.records import IDENTITY, Identity, decode_record, encode_record
from opentalos.model.errors import AlreadyExists, ConfigError, OutcomeUnknown, VersionConflict
from opentalos.model.message import Durability
from opentalos.ports.row_store import ABSENT, RowMutation
from opentalos.server.config import StorageSettings
from opentalos.server.stores import Stores

MARKS = "cluster"  # folder of the FileStore, table of the RowStore
_PREFIX = "cluster-"
_ROW = b"identity"
_COLUMN = b"id"
_PURPOSE = b"opentalos check of the cluster's key 1 "


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that this server belongs to, and the key its servers share."""

    id: str
    key: bytes


async def join_cluster(
    stores: Stores, storage: StorageSettings, key_of: Callable[[bool], bytes], fresh_id: str
) -> Cluster:
    """Check that stores and key belong to one cluster; the first server creates the cluster.

    Args: key_of: returns the key; True: it may create one, since the cluster is new.

    Raises: ConfigError: a store of another cluster, a store that lost its records, a wrong key.
    """
    marks = _Marks(stores, storage)
    identity = await marks.recorded()
    if identity is None:
        marked = await marks.marked()
        identity = await marks.recorded()  # another first server may have created it meanwhile
        if identity is None:
            marks.check_unused(marked)
    key = key_of(identity is None)
    if identity is None:
        made = Identity(id=fresh_id, key_check=_key_check(key, fresh_id))
        identity = await marks.record(made)
    if identity.key_check != _key_check(key, identity.id):
        raise ConfigError(
            f"cannot join cluster {identity.id} at {storage.meta}: this server's key differs from "
            "the "
            "cluster's; copy the key of another server (its [cluster] key_file or DATA/server.key)"
        )
    await marks.check(identity)
    if not identity.complete:
        await marks.complete(identity)
    return Cluster(identity.id, key)


class _Marks:
    """Reads and writes the three marks."""

    def __init__(self, stores: Stores, storage: StorageSettings) -> None:
        self._stores, self._storage = stores, storage

    async def recorded(self) -> Identity | None:
        """The record in the MetaStore."""
        record = await self._stores.meta.get(IDENTITY)
        return None if record is None else decode_record(Identity, record.value)

    async def record(self, made: Identity) -> Identity:
        """Create the record, or return the one that another server created first."""
        try:
            await self._stores.meta.create(IDENTITY, encode_record(made))
        except (AlreadyExists, OutcomeUnknown):
            found = await self.recorded()
            if found is None:
                raise
            return found
        return made

    def check_unused(self, marked: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Raises: ConfigError: a store is marked although the MetaStore has no cluster."""
        for url, ids in marked:
            if ids:
                raise ConfigError(
                    f"{url} belongs to cluster {', '.join(ids)}, but {self._storage.meta} has no "
                    "cluster: its records were lost, or [storage] meta names the wrong store. "
                    "Nothing was changed"
                )

    async def check(self, identity: Identity) -> None:
        """Raises: ConfigError: a store belongs to another cluster, or lost its mark."""
        for url, ids in await self.marked():
            for other in ids:
                if other != identity.id:
                    raise ConfigError(
                        f"{url} belongs to cluster {other}, but {self._storage.meta} to cluster "
                        f"{identity.id}: two clusters cannot share storage; correct [storage]"
                    )
            if not ids and identity.complete:
                raise ConfigError(
                    f"{url} has no mark of cluster {identity.id}, although {self._storage.meta} "
                    "belongs to it: its data was lost, or [storage] names the wrong store"
                )

    async def complete(self, identity: Identity) -> None:
        """Mark both stores, then set ``complete`` in the record."""
        rows, files = self._stores.rows, self._stores.files
        id_bytes = identity.id.encode()
        mark = RowMutation(
            key=_ROW, expected=ABSENT, write_id=id_bytes[:16], data={_COLUMN: id_bytes}
        )
        # An existing mark is from another first server, or from an earlier start.
        with contextlib.suppress(AlreadyExists):
            path = f"{MARKS}/{_PREFIX}{identity.id}"
            file = await files.create(path, durability=Durability.SYNCED)
            await file.commit([id_bytes])
            await file.close()
        with contextlib.suppress(VersionConflict):
            await rows.mutate(MARKS, mark)
        await self.check(identity)
        record = await self._stores.meta.get(IDENTITY)
        if record is not None and decode_record(Identity, record.value) == identity:
            value = encode_record(replace(identity, complete=True))
            with contextlib.suppress(VersionConflict):  # another first server did the same
                await self._stores.meta.replace(IDENTITY, value, record.version)

    async def marked(self) -> list[tuple[str, list[str]]]:
        """URL and cluster ids of each store."""
        names = [path.rpartition("/")[2] for path in await self._stores.files.list(MARKS)]
        ids = [name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX)]
        await self._stores.rows.open_table(MARKS)
        (row,) = await self._stores.rows.get(MARKS, [_ROW])
        row_ids = [row.cells[_COLUMN].decode()] if row is not None else []
        return [(self._storage.files, ids), (self._storage.rows, row_ids)]


def _key_check(key: bytes, cluster: str) -> str:
    return hmac.new(key, _PURPOSE + cluster.encode(), hashlib.sha256).hexdigest()
