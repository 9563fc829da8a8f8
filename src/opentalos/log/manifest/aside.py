"""Files that are set aside: messages that no manifest names and nothing proves to be acknowledged.

A crash in the middle of a roll leaves such a file, and the log continues with the same offsets. If
the manifest was older, the messages were acknowledged; so a copy stays for a week, within bounds,
for ``talos log verify`` to list and for whoever needs them.

Files: ``aside/TOPIC_UUID/PARTITION/DAY-NAME``, with the bytes of the segment; the day counts from
1970.
"""

import logging
from collections.abc import Sequence

from opentalos.log.context import LogContext
from opentalos.log.journal.store import create_whole
from opentalos.log.segment.scan import Readable
from opentalos.model.errors import AlreadyExists, TalosError
from opentalos.ports.file_store import FileStore

_log = logging.getLogger(__name__)

ROOT = "aside"
DAY_MS = 86_400_000
KEPT_DAYS = 7
FILES_MAX = 1_000  # of the whole store; each has one group of messages
_PIECE_BYTES = 1 << 20


def aside_path(path: str, now_ms: int) -> str:
    """Where the copy of a segment lies."""
    folder, _, name = path.rpartition("/")
    return f"{ROOT}/{folder}/{now_ms // DAY_MS}-{name}"


def day_of(path: str) -> int:
    """When the file was set aside; 0: the name does not say."""
    day = path.rpartition("/")[2].partition("-")[0]
    return int(day) if day.isdecimal() else 0


def outdated(paths: Sequence[str], now_ms: int) -> list[str]:
    """Which of all files that are set aside need not be kept."""
    by_age = sorted(paths, key=day_of)
    surplus = max(len(by_age) - FILES_MAX, 0)
    return [
        path
        for number, path in enumerate(by_age)
        if number < surplus or day_of(path) + KEPT_DAYS < now_ms // DAY_MS
    ]


async def set_aside(context: LogContext, files: Readable, path: str) -> None:
    """Copy a file, durably. Raises: TalosError: not done."""
    target = aside_path(path, context.time.append_ms())
    try:
        file = await create_whole(context.journaled, target)
    except AlreadyExists:  # of an attempt that did not end
        await context.files.delete(target)
        file = await create_whole(context.journaled, target)
    position = 0
    while raw := await files.read(path, position=position, bytes_max=_PIECE_BYTES):
        await file.commit([raw])
        position += len(raw)
    await file.close()
    context.counters.set_aside += 1
    _log.warning(
        "log-set-aside: %s: nothing proves that its messages were acknowledged, and the log "
        "continues without them; %s is a copy, kept for a week",
        *(path, target),
    )


async def sweep(files: FileStore, now_ms: int) -> None:
    """Delete what was kept for long enough. Raises: TalosError: a later call does it."""
    for path in outdated(await files.list(ROOT), now_ms):
        try:
            await files.delete(path)
        except TalosError as error:
            _log.warning("%s was not deleted: %s", path, error)
