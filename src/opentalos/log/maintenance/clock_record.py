"""ClockRecord: this server's record ``clock/<server>``, from which trusted time learns.

The record keeps what this server saw last of the time, for its next start. Writing it also reads
the coordination service's own clock: the service stamps each record (``Record.written_ms``).
``Upkeep`` begins it before the first put and refreshes it in its passes.
"""

import asyncio
import json
import logging

from opentalos.log.context import LogContext
from opentalos.log.manifest.store import ROOT as LOG_ROOT
from opentalos.log.trusted_time import LastSeen
from opentalos.model.errors import TalosError
from opentalos.ports.meta_store import Record
from opentalos.wire.record_crc import checked, with_crc

ROOT = "clock"
REFRESH_INTERVAL_S = 60.0
# A write and its read that take longer say nothing exact; half of it is the error of a reading.
READING_S_MAX = 10.0

_log = logging.getLogger(__name__)


def clock_path(server: str) -> str:
    """Where a server's record lies in the MetaStore."""
    return f"{ROOT}/{server}"


class ClockRecord:
    """Reads, writes and reports; never fails a caller but at the start."""

    def __init__(self, context: LogContext) -> None:
        self._context, self._path = context, clock_path(context.server)
        self._due_s = 0.0
        self._alarmed = False

    async def begin(self) -> None:
        """Read what the former run saw last, then refresh. Raises: Unavailable."""
        context = self._context
        meta = context.manifests.meta
        record = await meta.get(self._path)
        last = _decode(record)
        empty = last is None and not await meta.children(LOG_ROOT)
        context.time.begin(last, empty=empty)
        await self._refresh()
        self.report()

    async def refresh_if_due(self) -> None:
        """Write the record once a minute; a failure is left to the next pass."""
        if asyncio.get_running_loop().time() >= self._due_s:
            await self._refresh()

    def report(self) -> None:
        """Log when the clock comes into doubt, and when it is trusted again."""
        doubt = self._context.time.doubt()
        if doubt and not self._alarmed:
            _log.warning("nothing is deleted by age for now: %s", doubt)
        elif self._alarmed and not doubt:
            _log.warning("the clock is trusted again; retention resumes")
        if self._alarmed != bool(doubt):
            self._due_s = 0.0  # the next start has to know
        self._alarmed = bool(doubt)

    async def _refresh(self) -> None:
        try:
            async with asyncio.timeout(READING_S_MAX):
                await self._exchange()
        except (TalosError, TimeoutError) as error:
            _log.info("could not refresh %s: %r; the next pass does", self._path, error)
        else:
            self._due_s = asyncio.get_running_loop().time() + REFRESH_INTERVAL_S

    async def _exchange(self) -> None:
        context, loop = self._context, asyncio.get_running_loop()
        meta, time = context.manifests.meta, context.time
        former = await meta.get(self._path)
        value = _encode(time.last_seen())
        began_s = loop.time()
        if former is None:
            await meta.create(self._path, value)
        else:
            await meta.replace(self._path, value, former.version)
        written = await meta.get(self._path)
        if written is not None and written.written_ms is not None and written.value == value:
            read_s = (began_s + loop.time()) / 2
            time.note_store(written.written_ms, read_s)


def _encode(last: LastSeen) -> bytes:
    return with_crc(json.dumps(last._asdict(), separators=(",", ":")).encode())


def _decode(record: Record | None) -> LastSeen | None:
    """What was stored; None: nothing that can be used, so the clock has to prove itself."""
    if record is None:
        return None
    try:
        fields = json.loads(checked(record.value))
        early_ms, recounted = fields["early_ms"], fields["recounted"]
        return LastSeen(
            int(fields["time_ms"]),
            int(fields["wall_ms"]),
            float(fields["ran_s"]),
            int(early_ms) if early_ms is not None else None,
            (int(recounted[0]), int(recounted[1])) if recounted else None,
        )
    except (ValueError, KeyError, TypeError, IndexError) as error:
        _log.warning("the record of this server's clock cannot be read: %r; it is replaced", error)
        return None
