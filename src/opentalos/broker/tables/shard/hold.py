"""ShardHold: the record of one shard, from its claim to the day its server leaves it."""

import asyncio
import logging

from opentalos.broker.tables.shard.record import HeldRecord, ShardRecord, change, claim
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, TalosError
from opentalos.ports.meta_store import MetaStore

_log = logging.getLogger("opentalos.tables")


class ShardHold:
    """What this server wrote into the record last. ``turn``: held around what must not change
    between a look at the record and its next state; ``write_mark`` and ``raise_epoch`` want it."""

    def __init__(self, meta: MetaStore, path: str, held: HeldRecord) -> None:
        self._meta, self._path, self._held = meta, path, held
        self.turn = asyncio.Lock()

    @property
    def record(self) -> ShardRecord:
        """The record as it stands."""
        return self._held.record

    async def raise_epoch(self, above: int) -> int:
        """Take a larger epoch. Raises: TalosError: it may not be this server's any more."""
        epoch = max(self.record.epoch, above) + 1
        if not await self._become(self.record._replace(epoch=epoch)):
            raise StoreUnavailable(f"{self._path}: the epoch was not raised")
        return epoch

    async def write_mark(self, mark_ms: int) -> None:
        """Later owners have to know the mark.

        Raises: VersionConflict: another server has claimed the shard. Unavailable: it must not be
            told.
        """
        if mark_ms <= self.record.mark_ms:
            return
        try:
            stored = await self._become(self.record._replace(mark_ms=mark_ms))
        except OutcomeUnknown as error:
            raise StoreUnavailable(f"the mark may be lost: {error}") from error
        if not stored:
            raise StoreUnavailable("the mark was not stored")

    async def leave(self) -> None:
        """No write of this server is on its way: the next owner need not wait before marks."""
        async with self.turn:
            try:
                await self._become(self.record._replace(owner=""))
            except TalosError as error:
                _log.debug("%s: the next owner waits before its first mark: %s", self._path, error)

    async def _become(self, wanted: ShardRecord) -> bool:
        self._held = await change(self._meta, self._path, self._held, wanted)
        return self._held.record == wanted


async def hold(meta: MetaStore, path: str, owner: str) -> tuple[ShardHold, ShardRecord | None]:
    """Claim a shard; with what its record said before. Raises: as ``claim``."""
    held, former = await claim(meta, path, owner)
    return ShardHold(meta, path, held), former
