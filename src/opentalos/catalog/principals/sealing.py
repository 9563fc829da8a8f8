"""PrincipalSealing: gives every record of a principal its MAC once, then demands them.

A server of an older version writes records without one, so in a cluster this waits until every
server that is there has announced that it knows MACs. Then any server seals what is left, by
compare-and-set, and writes the marker; each server demands MACs once it has seen the marker, and
remembers that outside the MetaStore.
"""

import asyncio
import contextlib
import json
import logging
from dataclasses import dataclass
from typing import Final

from opentalos.catalog.principals.principals import PrincipalDirectory
from opentalos.catalog.principals.record import PrincipalRecord, Proof
from opentalos.catalog.principals.seal import SealMemory
from opentalos.catalog.records.record_index import record_path
from opentalos.model.errors import AlreadyExists, TalosError, VersionConflict
from opentalos.ports.clock import Clock
from opentalos.ports.meta_store import MetaStore, Record

MARKER: Final = "seals/principals"
ANNOUNCED: Final = "seals/servers"  # ephemeral records of servers that know MACs
FORMAT_VERSION: Final = 1
CHECK_INTERVAL_S: Final = 10.0  # until all servers of the cluster know MACs
PROGRESS_RECORDS: Final = 1_000  # between two lines of the log

_log: Final = logging.getLogger("opentalos.catalog")


@dataclass(frozen=True, slots=True, kw_only=True)
class SealPlan:
    """How this server seals. ``memory``: None: records never were without a MAC, such as in a
    store in memory. ``again``: seal what an older version wrote after a downgrade.
    ``servers``: path of the servers that are there; "": a single server."""

    server: str = ""
    servers: str = ""
    memory: SealMemory | None = None
    again: bool = False


class PrincipalSealing:
    """States: open (records without a MAC count), demanded. It never goes back while it runs."""

    def __init__(
        self, meta: MetaStore, clock: Clock, directory: PrincipalDirectory, plan: SealPlan
    ) -> None:
        self._meta, self._clock, self._directory, self._plan = meta, clock, directory, plan
        self._seal = directory.seal
        self._task: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Find out what counts, before records are loaded."""
        plan = self._plan
        if plan.memory is None:
            return
        marked = plan.memory.sealed or self._marks(await self._meta.get(MARKER))
        self._seal.expect(not plan.again and marked)
        if plan.again:
            _log.warning(
                "records of principals without a MAC count once more and are sealed; take "
                "seal_principals_again out of [auth] after this start"
            )

    def start(self) -> None:
        """Seal in the background, as soon as all servers know MACs."""
        if self._plan.memory is not None:
            self._task = asyncio.create_task(self._run(), name="seal principals")

    async def close(self) -> None:
        """Stop; the next start continues."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def check(self) -> bool:
        """One pass; whether MACs are demanded and the marker says so. Raises: TalosError."""
        memory = self._plan.memory
        if memory is None:
            return True
        found = await self._meta.get(MARKER)
        if not self._marks(found) or (self._plan.again and not self._seal.demanded):
            if not self._seal.demanded:
                if not await self._all_know():
                    return False
                await self._seal_all()
            else:
                _log.error(
                    "record %s was removed or changed, which no server does; writing it again: "
                    "check who can write to the store of control records",
                    MARKER,
                )
            await self._mark(found)
        if not memory.sealed:
            memory.note_sealed()
        if not self._seal.demanded:
            for path in self._unsealed():  # another server may have sealed them just now
                await self._directory.records.refresh(path)
            self._seal.demand()
            _log.info("records of principals count only with a MAC from now on")
        return True

    async def _run(self) -> None:
        while True:
            try:
                if await self.check():
                    return
            except TalosError as error:
                _log.warning("could not seal the records of principals: %s; retrying", error)
            await asyncio.sleep(CHECK_INTERVAL_S)

    async def _all_know(self) -> bool:
        """Whether every server that is there knows MACs; announces this one."""
        if not self._plan.servers:
            return True
        with contextlib.suppress(AlreadyExists):
            path = f"{ANNOUNCED}/{record_path(self._plan.server)}"
            await self._meta.create(path, b"1", ephemeral=True)
        there = set(await self._meta.children(self._plan.servers))
        return there <= set(await self._meta.children(ANNOUNCED))

    async def _seal_all(self) -> None:
        records = self._directory.records
        paths = self._unsealed()
        for number, path in enumerate(paths, 1):
            await records.change(path, self._sealed)
            if number % PROGRESS_RECORDS == 0 or number == len(paths):
                _log.info("sealed the records of %d of %d principals", number, len(paths))

    def _unsealed(self) -> list[str]:
        records = self._directory.records.items()
        return [path for path, record in records if record.proof is Proof.NONE]

    def _sealed(self, record: PrincipalRecord) -> PrincipalRecord:
        if record.proof is not Proof.NONE:
            return record  # another server did it
        return self._seal.revised(record, record, self._clock.wall_ms())

    def _marks(self, found: Record | None) -> bool:
        """Whether the marker was written by a holder of the key."""
        return found is not None and found.value == self._marker()

    def _marker(self) -> bytes:
        content = {"version": FORMAT_VERSION, "mac": self._seal.marker().decode()}
        return json.dumps(content, separators=(",", ":")).encode()

    async def _mark(self, found: Record | None) -> None:
        """Write the marker; another server may do so at the same time."""
        with contextlib.suppress(AlreadyExists, VersionConflict):
            if found is None:
                await self._meta.create(MARKER, self._marker())
            else:
                await self._meta.replace(MARKER, self._marker(), found.version)
