"""ShardClaim: the record of one shard in the MetaStore, as this server wrote it.

The claim names the owner and raises the epoch that fences former owners in the logs (I2); it also
keeps the last mark, which later owners have to respect.
"""

import asyncio
import logging

from opentalos.broker.tables.shard.record import HeldRecord, ShardRecord, change, claim
from opentalos.model.errors import OutcomeUnknown, StoreUnavailable, TalosError
from opentalos.ports.meta_store import MetaStore

_log = logging.getLogger("opentalos.tables")


class ShardClaim:
    """The record from its claim to its release.

    ``turn`` serializes changes: callers of ``write_mark`` and ``raise_epoch`` hold it, so that what
    they checked still holds when the record is replaced.
    """

    def __init__(self, meta: MetaStore, path: str, held: HeldRecord) -> None:
        self._meta, self._path, self._held = meta, path, held
        self.turn = asyncio.Lock()

    @property
    def record(self) -> ShardRecord:
        """The record as it was stored last."""
        return self._held.record

    async def raise_epoch(self, above: int) -> int:
        """Take a larger epoch. Raises: TalosError: another server may own the shard."""
        epoch = max(self.record.epoch, above) + 1
        if not await self._replace(self.record._replace(epoch=epoch)):
            raise StoreUnavailable(f"{self._path}: the epoch was not raised")
        return epoch

    async def write_mark(self, mark_ms: int) -> None:
        """Store the mark, so that later owners' changes are later.

        Raises: VersionConflict: another server has claimed the shard. Unavailable: the mark must
            not be issued.
        """
        if mark_ms <= self.record.mark_ms:
            return
        try:
            stored = await self._replace(self.record._replace(mark_ms=mark_ms))
        except OutcomeUnknown as error:
            raise StoreUnavailable(f"the mark may be lost: {error}") from error
        if not stored:
            raise StoreUnavailable("the mark was not stored")

    async def release(self) -> None:
        """Remove this server's name, so that the next owner may issue marks at once.

        Only valid while no write of this server is under way.
        """
        async with self.turn:
            try:
                await self._replace(self.record._replace(owner=""))
            except TalosError as error:
                _log.debug(
                    "%s: not released, the next owner waits to settle: %s", self._path, error
                )

    async def _replace(self, wanted: ShardRecord) -> bool:
        self._held = await change(self._meta, self._path, self._held, wanted)
        return self._held.record == wanted


async def claim_shard(
    meta: MetaStore, path: str, owner: str
) -> tuple[ShardClaim, ShardRecord | None]:
    """Claim a shard; return the former record as well. Raises: as ``record.claim``."""
    held, former = await claim(meta, path, owner)
    return ShardClaim(meta, path, held), former
