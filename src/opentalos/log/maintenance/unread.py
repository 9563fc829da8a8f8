"""Partitions whose manifest is not known: it is loaded, and logs left unsealed are recovered.

Retention and metering see only what is known, so a pass of the upkeep looks for what is not: left
by earlier runs, or by an opening that failed. What fails is tried again in a later pass, after all
others.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial

from opentalos.log.context import LogContext
from opentalos.log.manifest.store import ROOT
from opentalos.log.partition.jobs import open_now
from opentalos.log.partition.ownership_guard import SingleServerGuard
from opentalos.log.partition.partition_log import PartitionLog
from opentalos.log.partition.queue import Job, name_of
from opentalos.log.partition.state import State
from opentalos.log.partition.writer import PartitionWriter
from opentalos.log.results import TopicLogSettings
from opentalos.model.errors import DAMAGE, TalosError
from opentalos.model.message import PartitionKey

_log = logging.getLogger(__name__)

LOADS_PER_PASS_MAX = 1_000  # manifests that one pass reads
LOAD_FAILURES_PER_PASS_MAX = 10  # then the coordination is away, and the next pass tries again
OPENINGS_PER_PASS_MAX = 16  # logs of a crashed run that one pass recovers

_UNREAD = (State.UNOPENED, State.BROKEN)

LogOf = Callable[[TopicLogSettings, PartitionKey], PartitionLog]
StartJob = Callable[[PartitionWriter, Job], None]


class UnreadPartitions:
    """Finds them in each pass and loads a bounded number."""

    def __init__(
        self,
        context: LogContext,
        partitions: Mapping[PartitionKey, PartitionLog],
        topics: Mapping[str, TopicLogSettings],
        *,
        log_of: LogOf,
        start_job: StartJob,
    ) -> None:
        self._context, self._partitions, self._topics = context, partitions, topics
        self._log_of, self._start_job = log_of, start_job
        # Left by earlier runs; None: not listed. In a cluster the assignment names them.
        self._listed: list[PartitionKey] | None = None
        if not isinstance(context.guard, SingleServerGuard):
            self._listed = []
        self._failed: dict[PartitionKey, None] = {}  # tried again after all others

    async def load_some(self, busy: Mapping[PartitionWriter, None]) -> None:
        """Load what is unread, except what is ``busy`` with a job. Errors are logged."""
        try:
            await self._list()
        except TalosError as error:
            _log.warning("logs of earlier runs were not listed: %s; a later pass lists them", error)
        openings = failures = 0
        for writer in self._next(busy):
            if openings == OPENINGS_PER_PASS_MAX or failures == LOAD_FAILURES_PER_PASS_MAX:
                break
            said = writer.key in self._failed
            self._failed.pop(writer.key, None)
            try:
                openings += await self._load(writer)
            except TalosError as error:
                if not (said and isinstance(error, DAMAGE)):  # that lasts, so once is enough
                    _log.warning(
                        "%s: not loaded: %s; a later pass repeats it", name_of(writer.key), error
                    )
                self._failed[writer.key] = None
                failures += 1

    def failed(self, writer: PartitionWriter) -> None:
        """A job of the partition failed: others that are unread come first."""
        if writer.state in _UNREAD:
            self._failed[writer.key] = None

    async def _list(self) -> None:
        """Find what earlier runs left, once; make the logs of some of it."""
        if self._listed is None:
            meta = self._context.manifests.meta
            self._listed = [
                PartitionKey(topic_uuid, int(name))
                for topic_uuid in await meta.children(ROOT)
                for name in await meta.children(f"{ROOT}/{topic_uuid}")
                if name.isdecimal()
            ]
        for _ in range(min(LOADS_PER_PASS_MAX, len(self._listed))):
            settings = self._topics.get(self._listed[-1].topic_uuid)
            if settings is not None:  # else its topic is not served here any more
                self._log_of(settings, self._listed[-1])
            self._listed.pop()

    def _next(self, busy: Mapping[PartitionWriter, None]) -> list[PartitionWriter]:
        unread = [
            log.writer
            for log in self._partitions.values()
            if log.writer.state in _UNREAD and log.writer not in busy
        ]
        unread.sort(key=lambda writer: writer.key in self._failed)
        return unread[:LOADS_PER_PASS_MAX]

    async def _load(self, writer: PartitionWriter) -> bool:
        """True: it is being recovered."""
        guard = self._context.guard
        if not _is_idle(writer) or guard.refusal(writer.key) is not None:
            return False
        versioned = await self._context.manifests.load(writer.key)
        manifest = versioned.manifest
        if manifest.deleted or not _is_idle(writer) or guard.wait_s(writer.key, manifest) > 0:
            return False
        if manifest.unsealed is None:
            writer.adopt(versioned)
            return False
        if writer.state is State.BROKEN:
            return False  # its opening has said why; nothing opens it until a restart
        self._start_job(writer, partial(open_now, writer))
        return True


def _is_idle(writer: PartitionWriter) -> bool:
    """Whether nothing opens it and nothing has: a put or get may do so at any time."""
    return writer.state in _UNREAD and writer.served and not writer.busy()
