"""Open files with fewer DataNodes than wanted, and whether a new file would get more.

Hadoop's client replaces a DataNode only at the moment at which it fails. If none is spare then, the
file continues with the others; nothing is added later, and a node that failed under a stream is
never taken back by it. So DataNodes that restart one after the other each take a replica away.

A new file would get all nodes that are back, but one that hangs would stop it. So HDFS is asked
first, with a small file of its own beside every put: at most one at a time, after a delay that
grows while files stay short. What that file got is the offer that ``improves`` reports.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from opentalos.adapters.hdfs.client import HdfsClient
from opentalos.adapters.hdfs.commit_call import Sync
from opentalos.adapters.hdfs.java_errors import text_of
from opentalos.model.checks import plural
from opentalos.model.errors import StoreUnavailable, TalosError

FIRST_S = 1.0  # from the failure of a DataNode until HDFS is asked
DELAY_MAX_S = 60.0  # between two questions, in the end
# After it an offer is too old: a DataNode may hang by now. As long as a pass of the log's upkeep
# takes to come, which seals the files that have no puts.
OFFER_S = 30.0
# Failures that begin with ``FIRST_S`` again; one more every five minutes. So a DataNode that fails
# all the time costs each file two rolls a minute in the end.
QUICK_MAX = 10.0
QUICK_REGAIN_S = 300.0
WARN_S = 60.0  # between two log lines that files are short
_log = logging.getLogger(__name__)


def replicas_now(client: HdfsClient, path: str) -> int:
    """DataNodes that a new file gets: this one is made, written and removed. On a thread.

    It waits for one that hangs as long as Hadoop's client does. Raises: TalosError: not known.
    """
    client.delete(path)  # what a call left that failed
    stream = client.create(path).stream
    try:
        try:
            return client.commit_call.commit(stream, [b"?"], Sync.FLUSH)
        finally:
            stream.close()
    except client.java_exception as error:
        raise StoreUnavailable(f"{path}: {text_of(error)}") from error
    finally:
        client.delete(path)


class _Short(NamedTuple):
    """A file that has too few DataNodes."""

    replicas: int
    since_s: float


class Replicas:
    """What is known of the replicas of one store's open files. Only the loop uses it."""

    def __init__(self, wanted: int, ask: Callable[[], Awaitable[int]]) -> None:
        """``ask`` returns how many DataNodes a new file gets now."""
        self._wanted, self._ask = wanted, ask
        self._short: dict[object, _Short] = {}
        self._offered, self._offered_s = 0, 0.0
        self._delay_s = FIRST_S
        self._quick, self._quick_s = QUICK_MAX, 0.0
        self._warned_s = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def short(self) -> int:
        """Open files that have fewer DataNodes than wanted."""
        return len(self._short)

    def improves(self, file: object) -> bool:
        """Whether a new file would get more DataNodes than this one has."""
        short = self._short.get(file)
        if short is None or short.replicas >= self._offered or short.since_s >= self._offered_s:
            return False
        return asyncio.get_running_loop().time() - self._offered_s < OFFER_S

    def changed(self, file: object, replicas: int, *, fell: bool) -> None:
        """A commit reached another number than the one before; ``fell``: a DataNode failed."""
        if replicas >= self._wanted:
            self.forget(file)
            return
        now_s = asyncio.get_running_loop().time()
        self._warn(replicas, now_s)
        self._short[file] = _Short(replicas, now_s)
        if fell:
            self._offered = 0  # it may count the node that failed now
            self._hasten(now_s)
        self._ask_later()

    def forget(self, file: object) -> None:
        """The file is closed or dead, or has all its DataNodes."""
        if self._short.pop(file, None) is not None and not self._short:
            _log.info("no open file has too few DataNodes any more")

    def close(self) -> None:
        """Ask no more."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._asking is not None:
            self._asking.cancel()

    def _hasten(self, now_s: float) -> None:
        """Begin with the first delay again, unless DataNodes fail all the time."""
        regained = (now_s - self._quick_s) / QUICK_REGAIN_S
        self._quick, self._quick_s = min(QUICK_MAX, self._quick + regained), now_s
        if self._delay_s > FIRST_S and self._quick >= 1:
            self._quick -= 1
            self._delay_s = FIRST_S
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def _ask_later(self) -> None:
        if self._short and self._timer is None and self._asking is None and not self._closed:
            after = asyncio.get_running_loop().call_later
            self._timer = after(self._delay_s, self._begin)

    def _begin(self) -> None:
        self._timer = None
        self._delay_s = min(self._delay_s * 2, DELAY_MAX_S)
        if self._short:
            task = asyncio.get_running_loop().create_task(self._run(), name="hdfs-replicas")
            self._asking = task

    async def _run(self) -> None:
        offered = 0
        try:
            offered = await self._ask()
        except TalosError as error:
            _log.info("cannot tell how many DataNodes a new file gets: %s", error)
        except Exception:  # the root of a task; files that stay short are asked about again
            _log.exception("cannot tell how many DataNodes a new file gets")
        finally:
            self._asking = None
        self._offered, self._offered_s = offered, asyncio.get_running_loop().time()
        count = sum(short.replicas < offered for short in self._short.values())
        if count:
            _log.info(
                "a new file gets %d %s: %d open %s with fewer %s written on in new ones",
                offered,
                plural("DataNode", offered),
                count,
                plural("file", count),
                "are" if count > 1 else "is",
            )
        self._ask_later()

    def _warn(self, replicas: int, now_s: float) -> None:
        if not self._short and now_s - self._warned_s >= WARN_S:
            self._warned_s = now_s
            _log.warning(
                "an open file has %d %s, [hdfs] replication is %d: new files follow once HDFS "
                "gives them more; the metric hdfs_files_short counts such files",
                replicas,
                plural("DataNode", replicas),
                self._wanted,
            )
