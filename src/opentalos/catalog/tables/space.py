"""The space that tables with a quota use: counted by their writers, corrected by passes.

One record of the MetaStore per table has the count. Each server adds the changes of its own shards
every ``PUBLISH_S`` and reads there what the others added, so a quota is exact for one server and up
to ``PUBLISH_S`` late between several. A pass of ``space_pass.py`` over all rows corrects the count,
as far as the writes during the pass leave no doubt.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from opentalos.catalog.records.record_index import CAS_ATTEMPTS_MAX, record_path
from opentalos.catalog.tables.table import Table
from opentalos.model.errors import (
    AlreadyExists,
    CorruptLog,
    NewerFormat,
    NotFound,
    OutcomeUnknown,
    QuotaExceeded,
    StoreUnavailable,
    TalosError,
    Unavailable,
    VersionConflict,
)
from opentalos.ports.meta_store import MetaStore
from opentalos.wire.record_crc import checked, with_crc

SPACES: Final = "table-spaces"  # folder of the records
FORMAT_VERSION: Final = 1
PUBLISH_S: Final = 10.0  # maximum age of what is known of other servers' writes
CLOSE_S: Final = 2.0  # for publishing the rest when the server stops
NEARLY_FULL: Final = 0.9  # of a quota
_log = logging.getLogger("opentalos.tables")


class SpaceRecord(NamedTuple):
    """``bytes``: stored. ``changed``: sum of all changes since the start, without their sign."""

    bytes: int
    changed: int = 0


class SpaceFigures(NamedTuple):
    """``refused``: mutations, since the start."""

    bytes: int
    nearly_full: int  # tables
    refused: int


class TableSpace:
    """The count of one table at a server that writes to it."""

    __slots__ = ("changed_bytes", "limit_bytes", "name", "own_bytes", "published_bytes", "refused")

    def __init__(self, table: Table) -> None:
        self.name, self.limit_bytes = table.name, table.quota_bytes or 0
        self.published_bytes: int | None = None  # as the record was read last
        self.own_bytes = 0  # of this server, not published yet
        self.changed_bytes = 0  # the same, without the sign
        self.refused = 0  # mutations

    @property
    def used_bytes(self) -> int:
        """The count, as far as this server knows."""
        return max(0, (self.published_bytes or 0) + self.own_bytes)

    def take(self, growth: int) -> int:
        """Count what a mutation adds or takes away, and return it.

        Raises: QuotaExceeded: it grows over the quota; not counted.
        """
        if growth > 0 and self.used_bytes + growth > self.limit_bytes:
            self.refused += 1
            raise QuotaExceeded(
                f"space of table {self.name}: limit {self.limit_bytes} bytes, measured "
                f"{self.used_bytes} bytes stored and {growth} more requested"
            )
        self._add(growth)
        return growth

    def give_back(self, growth: int) -> None:
        """What was taken was not written after all."""
        self._add(-growth)

    def _add(self, growth: int) -> None:
        self.own_bytes += growth
        self.changed_bytes += abs(growth)


class TableSpaces:
    """All counts that this server adds to. ``quota_of``: of a table by its uuid; None: it has
    none, or is gone."""

    def __init__(self, meta: MetaStore, quota_of: Callable[[str], int | None]) -> None:
        self._meta, self._quota_of = meta, quota_of
        self._known: dict[str, TableSpace] = {}  # by table uuid
        self._refused = 0  # of tables that are no longer known
        self._next_s = 0.0

    def figures(self) -> SpaceFigures:
        """Of the tables with a quota that this server writes to."""
        known = self._known.values()
        return SpaceFigures(
            bytes=sum(space.used_bytes for space in known),
            nearly_full=sum(space.used_bytes >= NEARLY_FULL * space.limit_bytes for space in known),
            refused=self._refused + sum(space.refused for space in known),
        )

    async def of(self, table: Table) -> TableSpace | None:
        """Where a shard counts what it writes; None: the table has no quota.

        While the record cannot be read, only this server's writes count.
        """
        if table.quota_bytes is None:
            return None
        space = self._known.get(table.uuid)
        if space is None:
            space = self._known[table.uuid] = TableSpace(table)
        space.limit_bytes = table.quota_bytes
        if space.published_bytes is None:
            try:
                space.published_bytes = await self.read(table.uuid)
            except TalosError as error:
                _log.warning(
                    "could not read the storage usage of table %s: %s", table.resource, error
                )
        return space

    async def used(self, table: Table) -> int | None:
        """Bytes that count against the quota; None: it has none, or it was not counted yet.

        Raises: Unavailable.
        """
        if table.quota_bytes is None:
            return None
        published = await self.read(table.uuid)
        space = self._known.get(table.uuid)
        if space is None or published is None:
            return published
        return max(0, published + space.own_bytes)

    async def read(self, table_uuid: str) -> int | None:
        """The published count. Raises: Unavailable."""
        record = await self._get(table_uuid)
        return record.bytes if record else None

    async def changed(self, table_uuid: str) -> int:
        """The sum of all changes of the count, for `measured`. Raises: Unavailable."""
        record = await self._get(table_uuid)
        return record.changed if record else 0

    async def publish(self) -> None:
        """Add what was written here to the records, at most every ``PUBLISH_S``. What cannot be
        added now is added the next time."""
        now_s = asyncio.get_running_loop().time()
        if self._known and now_s >= self._next_s:
            self._next_s = now_s + PUBLISH_S
            await self._publish_all()

    async def close(self) -> None:
        """Publish the rest; what cannot be published is corrected by the next pass."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._publish_all()
        except TimeoutError:
            _log.warning(
                "could not publish the storage usage of tables within %.0f s; passes correct it",
                CLOSE_S,
            )

    async def create(self, table_uuid: str) -> None:
        """A table is made with a quota. Raises: Unavailable, OutcomeUnknown."""
        await self._change(table_uuid, lambda now: now or SpaceRecord(0))

    async def begin(self, table_uuid: str, used_bytes: int) -> None:
        """A table gets a quota; what was counted before, for another one, is forgotten.

        Raises: Unavailable, OutcomeUnknown.
        """
        await self._change(
            table_uuid, lambda now: SpaceRecord(used_bytes, now.changed if now else 0)
        )

    async def measured(self, table_uuid: str, used_bytes: int, changed: int) -> None:
        """Correct a count by a pass over all rows.

        What was written during the pass may have been seen by it or not, so the count only moves
        as far as the pass is sure. Args: changed: as published when the pass began.
        Raises: Unavailable, OutcomeUnknown.
        """

        def corrected(now: SpaceRecord | None) -> SpaceRecord:
            if now is None:
                return SpaceRecord(used_bytes)
            doubt = max(0, now.changed - changed)
            least, most = max(0, used_bytes - doubt), used_bytes + doubt
            return now._replace(bytes=min(max(now.bytes, least), most))

        record = await self._change(table_uuid, corrected)
        space = self._known.get(table_uuid)
        if space is not None:
            space.published_bytes = record.bytes

    async def remove(self, table_uuid: str) -> None:
        """The table is gone. Raises: Unavailable, OutcomeUnknown: call again."""
        self.forget(table_uuid)
        path = space_path(table_uuid)
        found = await self._meta.get(path)
        if found is not None:
            try:
                await self._meta.delete(path, found.version)
            except (NotFound, VersionConflict) as error:
                raise StoreUnavailable(f"{path} changes while it is removed") from error

    def forget(self, table_uuid: str) -> None:
        """Nothing more is written to it here."""
        space = self._known.pop(table_uuid, None)
        self._refused += space.refused if space else 0

    async def _publish_all(self) -> None:
        for table_uuid, space in list(self._known.items()):
            limit = self._quota_of(table_uuid)
            if limit is None:
                self.forget(table_uuid)
                continue
            space.limit_bytes = limit
            try:
                await self._publish(table_uuid, space)
            except TalosError as error:
                _log.warning(
                    "could not publish the storage usage of table %s: %s", space.name, error
                )
                if isinstance(error, Unavailable):
                    return  # the other tables would wait for the store, too

    async def _publish(self, table_uuid: str, space: TableSpace) -> None:
        own, changed = space.own_bytes, space.changed_bytes
        if not changed:
            space.published_bytes = await self.read(table_uuid)
            return

        def added(now: SpaceRecord | None) -> SpaceRecord:
            if now is None:  # the first pass, or setting the quota, creates the record
                raise NotFound(table_uuid)
            return SpaceRecord(max(0, now.bytes + own), now.changed + changed)

        try:
            published = (await self._change(table_uuid, added)).bytes
        except NotFound:
            return
        except OutcomeUnknown:
            published = (space.published_bytes or 0) + own  # most likely; passes correct it
        space.published_bytes = published
        space.own_bytes -= own
        space.changed_bytes -= changed

    async def _get(self, table_uuid: str) -> SpaceRecord | None:
        found = await self._meta.get(space_path(table_uuid))
        return None if found is None else decode_space(found.value)

    async def _change(
        self, table_uuid: str, change: Callable[[SpaceRecord | None], SpaceRecord]
    ) -> SpaceRecord:
        path = space_path(table_uuid)
        for _ in range(CAS_ATTEMPTS_MAX):
            found = await self._meta.get(path)
            former = None if found is None else decode_space(found.value)
            record = change(former)
            if record == former:
                return record
            try:
                if found is None:
                    await self._meta.create(path, encode_space(record))
                else:
                    await self._meta.replace(path, encode_space(record), found.version)
            except (AlreadyExists, VersionConflict):
                continue
            return record
        raise StoreUnavailable(f"{path} changes too often")


def space_path(table_uuid: str) -> str:
    """Path of a table's count."""
    return record_path(SPACES, table_uuid)


def encode_space(record: SpaceRecord) -> bytes:
    """The record's value."""
    document = {"version": FORMAT_VERSION, **record._asdict()}
    return with_crc(json.dumps(document, separators=(",", ":"), sort_keys=True).encode())


def decode_space(value: bytes) -> SpaceRecord:
    """Read a record. Raises: NewerFormat; CorruptLog if it is not such a record."""
    try:
        document = json.loads(checked(value))
        version = document.pop("version")
        if version != FORMAT_VERSION:
            raise NewerFormat(f"space record of format {version}, this version reads up to 1")
        return SpaceRecord(int(document["bytes"]), int(document["changed"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise CorruptLog(f"unreadable space record: {error}") from error
