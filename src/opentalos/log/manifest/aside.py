"""Files that are set aside: messages that no manifest names.

A crash in the middle of a roll leaves such a file, and the log continues with the same offsets. If
the manifest was older, the messages were acknowledged; so a copy stays for a week, within bounds,
for ``talos log verify`` to list and for whoever needs them. A repair that accepts a loss leaves out
what lies beyond a gap; that is set aside, too, and only its age bounds it.

Files: ``aside/TOPIC_UUID/PARTITION/DAY-NAME``, with the bytes of the segment; the day counts from
1970. Those of a repair: ``DAY-repair-NAME``.
"""

import logging
import math
from collections.abc import Sequence

from opentalos.log.context import LogContext
from opentalos.log.journal.store import without_journals
from opentalos.log.segment.scan import Readable
from opentalos.model.errors import AlreadyExists, TalosError
from opentalos.model.message import Durability
from opentalos.ports.file_store import FileStore

_log = logging.getLogger(__name__)

ROOT = "aside"
DAY_MS = 86_400_000
KEPT_DAYS = 7
FILES_MAX = 1_000  # of the whole store that crashes left; each has one group of messages
_REPAIR = "repair-"
_PIECE_BYTES = 1 << 20


def aside_path(path: str, now_ms: int, *, of_repair: bool = False) -> str:
    """Where the copy of a segment lies."""
    folder, _, name = path.rpartition("/")
    return f"{ROOT}/{folder}/{now_ms // DAY_MS}-{_REPAIR if of_repair else ''}{name}"


def why_aside(path: str) -> str:
    """Why a file was set aside."""
    if _of_repair(path):
        return "a repair has left it out of the log, which lacks what lies between"
    return "nothing proves that its messages were acknowledged"


def _of_repair(path: str) -> bool:
    return path.rpartition("/")[2].partition("-")[2].startswith(_REPAIR)


def day_of(path: str) -> int:
    """When the file was set aside; 0: the name does not say."""
    day = path.rpartition("/")[2].partition("-")[0]
    return int(day) if day.isdecimal() else 0


def outdated(paths: Sequence[str], now_ms: int) -> list[str]:
    """Which of all files that are set aside need not be kept."""
    of_crashes = sorted((path for path in paths if not _of_repair(path)), key=day_of)
    surplus = set(of_crashes[: max(len(of_crashes) - FILES_MAX, 0)])
    return [
        path
        for path in sorted(paths, key=day_of)
        if path in surplus or day_of(path) + KEPT_DAYS < now_ms // DAY_MS
    ]


async def set_aside(context: LogContext, files: Readable, path: str) -> None:
    """Copy a file, durably. Raises: TalosError: not done."""
    target = aside_path(path, context.time.append_ms())
    await copy_file(without_journals(context.journaled), target, files, path)
    context.counters.set_aside += 1
    _log.warning(
        "log-set-aside: %s: nothing proves that its messages were acknowledged, and the log "
        "continues without them; %s is a copy, kept for a week",
        *(path, target),
    )


async def copy_file(
    files: FileStore, target: str, source: Readable, path: str, length: float = math.inf
) -> None:
    """Copy up to ``length`` bytes of ``path``, durably. Raises: TalosError: not done."""
    try:
        file = await files.create(target, durability=Durability.FLUSHED)
    except AlreadyExists:  # of an attempt that did not end
        await files.delete(target)
        file = await files.create(target, durability=Durability.FLUSHED)
    position = 0
    while wanted := int(min(length - position, _PIECE_BYTES)):
        raw = await source.read(path, position=position, bytes_max=wanted)
        if raw:
            await file.commit([raw])
        position += len(raw)
        if len(raw) < wanted:
            break
    await file.close()


async def sweep(files: FileStore, now_ms: int) -> None:
    """Delete what was kept for long enough. Raises: TalosError: a later call does it."""
    for path in outdated(await files.list(ROOT), now_ms):
        try:
            await files.delete(path)
        except TalosError as error:
            _log.warning("%s was not deleted: %s", path, error)
