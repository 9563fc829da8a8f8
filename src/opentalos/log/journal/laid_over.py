"""A segment's file with the bytes that a journal has of it, as one readable file."""

from opentalos.log.journal.extents import Extents
from opentalos.log.segment.scan import Readable
from opentalos.model.errors import NotFound


class LaidOver:
    """A segment's file with what its journal has of it; ``length`` is that of both."""

    def __init__(self, files: Readable, extents: Extents, length: int) -> None:
        self._files, self._extents = files, extents
        self.length = max(length, extents.end)
        self.gap = extents.first_gap(length)  # where bytes are missing, or None

    async def read(self, path: str, *, position: int, bytes_max: int) -> bytes:
        """See the port."""
        try:
            raw = await self._files.read(path, position=position, bytes_max=bytes_max)
        except NotFound:
            if self._extents.start != 0:
                raise
            raw = b""  # a late segment: the journal has all of it
        return self._extents.laid_over(raw, position, bytes_max)
