"""KeyUses: when each key was last used, for those who clean up keys.

Gateways mark a key with one dictionary store per request. A background task stamps what was marked
and writes one record per principal, so a time is exact to one interval, and uses since the last
pass are lost with a process. The records are apart from the principals', since every change of
those makes all servers decide rates and routes again.
"""

from collections.abc import Mapping
from typing import Any

from opentalos.catalog.principals.principals import PrincipalDirectory
from opentalos.catalog.records.record_format import decode_record, encode_record
from opentalos.catalog.records.record_index import Codec, RecordIndex, record_path
from opentalos.model.errors import PrincipalNotExist
from opentalos.ports.clock import Clock
from opentalos.ports.meta_store import MetaStore

PREFIX = "key-uses"
FORMAT_VERSION = 1
PRINCIPALS_PER_PASS_MAX = 200  # records written by one pass; the others wait for the next
FOLLOW_INTERVAL_S = 30.0  # between checks for what other servers wrote

Uses = Mapping[str, int]  # key id to the time of its last use


def encode_uses(uses: Uses) -> bytes:
    """The record's value."""
    return encode_record(FORMAT_VERSION, keys=uses)


def decode_uses(value: bytes) -> Uses:
    """Read a record. Raises: NewerFormat, CorruptLog."""
    return decode_record(value, FORMAT_VERSION, "key uses", _uses)


def _uses(record: Any) -> Uses:
    return {str(key_id): int(used_ms) for key_id, used_ms in record["keys"].items()}


class KeyUses:
    """Last uses of all keys. ``marked`` is for gateways: key ids used since the last pass.

    Only keys that exist are marked, so it has at most one entry for each of them.
    """

    def __init__(
        self, meta: MetaStore, clock: Clock, directory: PrincipalDirectory, interval_s: float
    ) -> None:
        self._clock, self._directory = clock, directory
        self._interval_ms = int(interval_s * 1_000)
        codec = Codec(encode_uses, decode_uses)
        self._records = RecordIndex(meta, PREFIX, codec, interval_s=FOLLOW_INTERVAL_S)
        self.marked: dict[str, None] = {}

    async def start(self) -> None:
        """Load all records."""
        await self._records.start()

    async def close(self) -> None:
        """Stop following changes of other servers."""
        await self._records.close()

    def last_ms(self, principal_id: str, key_id: str) -> int:
        """When the key was last used; 0: not known."""
        if key_id in self.marked:
            return self._clock.wall_ms()
        stored = self._records.get(record_path(PREFIX, principal_id))
        return stored.get(key_id, 0) if stored else 0

    async def write(self) -> None:
        """One pass: write what was marked. Raises: as the store; the rest stays marked."""
        wanted: dict[str, list[str]] = {}
        for key_id in list(self.marked):
            try:
                owner = self._directory.owner_of_key(key_id)
            except PrincipalNotExist:
                del self.marked[key_id]
                continue
            if owner in wanted or len(wanted) < PRINCIPALS_PER_PASS_MAX:
                wanted.setdefault(owner, []).append(key_id)
        for owner, key_ids in wanted.items():
            await self._write_uses(owner, key_ids)
            for key_id in key_ids:
                self.marked.pop(key_id, None)

    async def _write_uses(self, owner: str, key_ids: list[str]) -> None:
        now_ms = self._clock.wall_ms()
        info = self._directory.info(owner)
        known = {key.key_id for key in info.keys} if info else set[str]()

        def used(before: Uses) -> Uses:
            if all(now_ms - before.get(key_id, 0) < self._interval_ms for key_id in key_ids):
                return before  # another server of the cluster wrote it just now
            kept = {key_id: used_ms for key_id, used_ms in before.items() if key_id in known}
            return kept | dict.fromkeys(key_ids, now_ms)

        await self._records.put(record_path(PREFIX, owner), {}, used)
