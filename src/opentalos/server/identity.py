"""Which cluster the stores belong to: three marks that must agree, and a check of the key.

The record in the MetaStore is made first and says whether the marks in the other stores stand, so a
store whose mark is missing later is known to be another one than before.
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
    """Check that the stores and the key are of one cluster; the first server makes it.

    Args: key_of: gives the key; True: it may be made, since the cluster is new.

    Raises: ConfigError: another cluster's store, a store that lost its records, another key.
    """
    marks = _Marks(stores, storage)
    identity = await marks.recorded()
    if identity is None:
        marked = await marks.marked()
        identity = await marks.recorded()  # another first server may have made it meanwhile
        if identity is None:
            marks.check_unused(marked)
    key = key_of(identity is None)
    if identity is None:
        made = Identity(id=fresh_id, key_check=_key_check(key, fresh_id))
        identity = await marks.record(made)
    if identity.key_check != _key_check(key, identity.id):
        raise ConfigError(
            f"this server's key is not the key of cluster {identity.id} at {storage.meta}: every "
            "server needs the same one ([cluster] key_file, or DATA/server.key of another server)"
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
        """Make the record, or take the one of a server that was quicker."""
        try:
            await self._stores.meta.create(IDENTITY, encode_record(made))
        except (AlreadyExists, OutcomeUnknown):
            found = await self.recorded()
            if found is None:
                raise
            return found
        return made

    def check_unused(self, marked: Sequence[tuple[str, Sequence[str]]]) -> None:
        """Raises: ConfigError: a store has a cluster already, of which the MetaStore knows none."""
        for url, ids in marked:
            if ids:
                raise ConfigError(
                    f"{url} belongs to cluster {', '.join(ids)}, but {self._storage.meta} knows of "
                    "no cluster: its records were lost, or it is another one's. Nothing was touched"
                )

    async def check(self, identity: Identity) -> None:
        """Raises: ConfigError: a store is another cluster's, or not the one it was before."""
        for url, ids in await self.marked():
            for other in ids:
                if other != identity.id:
                    raise ConfigError(
                        f"{url} belongs to cluster {other}, {self._storage.meta} to cluster "
                        f"{identity.id}: two clusters cannot share storage"
                    )
            if not ids and identity.complete:
                raise ConfigError(
                    f"{url} has no mark of cluster {identity.id}, to which {self._storage.meta} "
                    "belongs: its data was lost, or it is not the storage of this cluster"
                )

    async def complete(self, identity: Identity) -> None:
        """Mark both stores, then say so in the record."""
        rows, files = self._stores.rows, self._stores.files
        id_bytes = identity.id.encode()
        mark = RowMutation(
            key=_ROW, expected=ABSENT, write_id=id_bytes[:16], data={_COLUMN: id_bytes}
        )
        # What is there already was made by another first server, or by an earlier start.
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
