"""Journals of a storage that no server uses: read for ``verify``, without a fence."""

import contextlib
from typing import NamedTuple

from opentalos.log.journal.extents import Extents
from opentalos.log.journal.format import ROOT, file_path
from opentalos.log.journal.former import FormerJournal, read_former
from opentalos.log.journal.laid_over import LaidOver
from opentalos.log.segment.format import SEGMENT_HEADER_BYTES
from opentalos.log.segment.scan import Readable
from opentalos.model.errors import CorruptLog, NotFound
from opentalos.ports.file_store import FileStore

_LENGTH_MAX = 1 << 62  # of a file, to search its end


class Begin(NamedTuple):
    """Where a journal begins to have a segment."""

    path: str  # of the segment
    file: str  # of the journal
    position: int
    needed: int  # the oldest file that the journal needs, as it says


class StoredJournals:
    """Each is read once, with the length that its files have."""

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self._formers: dict[str, FormerJournal] = {}
        self._readable: list[FormerJournal] | None = None
        self._reported: set[str] = set()

    async def lay_over(self, path: str, name: str) -> tuple[LaidOver, str]:
        """The segment with what the journal has of it; and what is wrong, or an empty string."""
        fault, extents = "", Extents()
        try:
            length = await file_length(self._files, path)
        except NotFound:
            length = 0
        if name:
            try:
                former = await self._former(name)
                extents = await former.load(self._files, path)
                if length:
                    await former.written.check(LaidOver(self._files, extents, length), path)
            except CorruptLog as error:
                fault = str(error)
        found = LaidOver(self._files, extents, length)
        if found.gap is not None:
            fault = f"bytes from position {found.gap} on are missing"
        return found, fault

    async def rest(self, path: str, name: str) -> Readable:
        """The segment with what is left of it in the journal, also if some may be missing."""
        if not name:
            return self._files
        try:
            extents = await (await self._former(name)).whole(self._files, path)
        except CorruptLog:
            extents = Extents()
        return LaidOver(self._files, extents, 0)

    async def have_all(self, path: str, name: str) -> bool:
        """Whether that journal has every byte of a segment without a file."""
        try:
            extents = await (await self._former(name)).load(self._files, path)
        except CorruptLog:
            return False
        return extents.start == 0 and extents.first_gap(0) is None

    async def held(self, folder: str = "") -> dict[str, str]:
        """Segments of which any journal has bytes, and which; of one partition by its folder."""
        return {
            path: former.name
            for former in await self._all()
            for path in (former.below(folder) if folder else former.segments())
        }

    async def holder(self, path: str) -> str:
        """The journal that has bytes of a segment; empty: none."""
        return next((former.name for former in await self._all() if former.has(path)), "")

    async def begins(self) -> list[Begin]:
        """Segments that journals have bytes of."""
        return [
            Begin(path, file_path(former.name, place.number), place.position, former.needed)
            for former in await self._all()
            for path in former.segments()
            for place in (former.begins[path],)
        ]

    async def _all(self) -> list[FormerJournal]:
        if self._readable is None:
            found = []
            for name in sorted({path.split("/")[1] for path in await self._files.list(ROOT)}):
                with contextlib.suppress(CorruptLog):  # none of it is left; who names it says so
                    found.append(await self._former(name))
            self._readable = found
        return self._readable

    def findings(self) -> list[tuple[str, bool]]:
        """What is wrong with those that were read, each once; whether it is damage."""
        found = []
        for name, former in self._formers.items():
            if name not in self._reported:
                self._reported.add(name)
                found += [(f"journal {name}: {cut}", False) for cut in former.cuts]
                if former.damage and former.segments():
                    found.append((former.damage, True))
        return found

    async def _former(self, name: str) -> FormerJournal:
        found = self._formers.get(name)
        if found is None:
            found = self._formers[name] = await read_former(self._files, name, self._measured)
        return found

    async def _measured(self, path: str) -> int:
        return await file_length(self._files, path)


async def file_length(files: Readable, path: str) -> int:
    """Length of a file; the port has no call for it, so search with one-byte reads."""
    if not await files.read(path, position=SEGMENT_HEADER_BYTES - 1, bytes_max=1):
        return 0  # no whole header
    low, high = SEGMENT_HEADER_BYTES - 1, 2 * SEGMENT_HEADER_BYTES
    while high < _LENGTH_MAX and await files.read(path, position=high, bytes_max=1):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        if await files.read(path, position=middle, bytes_max=1):
            low = middle
        else:
            high = middle
    return high
