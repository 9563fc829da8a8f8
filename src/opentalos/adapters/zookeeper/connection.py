"""One session with ZooKeeper: kazoo's threads on one side, an event loop on the other."""

import asyncio
import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionLoss,
    KazooException,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.protocol.serialization import Exists

from opentalos.adapters.loop_outbox import LoopOutbox
from opentalos.adapters.thread_start import start_thread
from opentalos.adapters.zookeeper.kazoo_client import Client, Listener
from opentalos.model.errors import ConfigError, OutcomeUnknown, StoreUnavailable
from opentalos.model.limits import ZookeeperLimits
from opentalos.ports.meta_store import Session

CALLS_MAX = 64  # under way at once; more would fill the pipe that wakes kazoo's thread
PROOFS_PER_SESSION = 6  # looks whether the session lives
SILENCE_PART = 0.5  # of the session: a server silent for so long is left for another one
LOST_PAUSE_S = 0.01
CLOSE_S = 3.0
_DEFAULT_PORT = 2181
_log = logging.getLogger(__name__)

# Answers that the caller of a request decides on.
ANSWERS = (
    NoNodeError,
    NodeExistsError,
    BadVersionError,
    NotEmptyError,
    NoChildrenForEphemeralsError,
)
# The request may have been carried out.
_UNKNOWN = (
    ConnectionLoss,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
    AuthFailedError,
)


class Address(NamedTuple):
    """Where the records lie: ``zookeeper://h1:2181,h2:2181/chroot``."""

    hosts: str
    root: str  # path of a znode

    @classmethod
    def parse(cls, url: str) -> "Address":
        """Raises: ConfigError."""
        parts = urlsplit(url)
        hosts = [host for host in parts.netloc.split(",") if host]
        names = [name for name in parts.path.split("/") if name]
        if parts.scheme != "zookeeper" or not hosts or not names or "@" in parts.netloc:
            raise ConfigError(f"{url} must be zookeeper://HOST:PORT[,HOST:PORT]/PATH")
        with_ports = [host if ":" in host else f"{host}:{_DEFAULT_PORT}" for host in hosts]
        return cls(",".join(with_ports), "/" + "/".join(names))


class _Reply:
    """Hands an outcome to the loop; what comes after the first is dropped."""

    __slots__ = ("_future", "_outbox")

    def __init__(self, future: "asyncio.Future[Any]", outbox: LoopOutbox) -> None:
        self._future, self._outbox = future, outbox

    def set(self, value: Any = None) -> None:
        self._outbox.post(_finish, self._future, value, None)

    def set_exception(self, exception: BaseException) -> None:
        self._outbox.post(_finish, self._future, None, exception)


def _finish(future: "asyncio.Future[Any]", value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


class ZookeeperConnection:
    """Requests in order, each answered, refused or unknown within ``call_timeout_s``.

    The session's validity is proved by requests of its own: it lasts from the moment at which the
    last answered one was sent, so no server can have ended it earlier.
    """

    def __init__(self, address: Address, limits: ZookeeperLimits) -> None:
        self._address, self._limits = address, limits
        self._loop = asyncio.get_running_loop()
        self._outbox = LoopOutbox(self._loop)
        self._client: Client | None = None
        self._slots = asyncio.Semaphore(CALLS_MAX)
        self._up = asyncio.Event()
        self._ended = asyncio.Event()
        self._session_id = 0
        self._session_s = limits.session_s  # as granted
        self._incarnation = 0
        self._lost = True
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._proved_loop_s = self._proved_s = -limits.session_s  # on the loop's and real clock
        self._proof: asyncio.Task[None] | None = None
        self._closed = False
        self.on_connected: Callable[[], None] = lambda: None
        self.on_change: Callable[[str], None] = lambda path: None  # of a watched znode

    async def open(self) -> None:
        """Connect. Raises: ConfigError, StoreUnavailable: not within ``connect_timeout_s``."""
        post = self._outbox.post
        listener = Listener(
            connected=lambda session_id, seconds: post(self._connected, session_id, seconds),
            disconnected=lambda: post(self._disconnected),
            session_lost=lambda: post(self._session_lost),
            watch_event=lambda path: post(self._changed, path),
        )
        auth = self._limits.auth.split(":", 1)
        if self._limits.auth and len(auth) != 2:
            raise ConfigError("[zookeeper] auth must be SCHEME:CREDENTIAL")
        credential = (auth[0], auth[1]) if self._limits.auth else None
        session_s = self._limits.session_s
        self._client = Client(self._address.hosts, session_s, credential, listener)
        self._client.start()
        self._proof = asyncio.create_task(self._prove(), name="zookeeper session")
        try:
            async with asyncio.timeout(self._limits.connect_timeout_s):
                await self._opened
        except TimeoutError as error:
            seconds = self._limits.connect_timeout_s
            raise StoreUnavailable(
                f"ZooKeeper at {self._address.hosts} does not answer within {seconds:g} s"
            ) from error

    async def call(self, *requests: Any) -> Any:
        """Send requests one right after the other; the answer to the last one.

        Raises: one of ANSWERS; StoreUnavailable: not done; OutcomeUnknown: no answer came.
        """
        sent = False
        try:
            async with asyncio.timeout(self._limits.call_timeout_s), self._slots:
                futures = [self._submit(request) for request in requests]
                sent = True
                return (await asyncio.gather(*futures))[-1]
        except TimeoutError as error:
            text = f"ZooKeeper did not answer within {self._limits.call_timeout_s:g} s"
            raise (OutcomeUnknown if sent else StoreUnavailable)(text) from error
        except ANSWERS:
            raise
        except _UNKNOWN as error:
            raise OutcomeUnknown(f"ZooKeeper: {type(error).__name__} {error}".rstrip()) from error
        except KazooException as error:
            raise StoreUnavailable(f"ZooKeeper: {type(error).__name__} {error}".rstrip()) from error

    async def read(self, *requests: Any) -> Any:
        """As ``call`` for requests that change nothing. Raises: ANSWERS, StoreUnavailable."""
        try:
            return await self.call(*requests)
        except OutcomeUnknown as error:
            raise StoreUnavailable(str(error)) from error

    def tell(self, request: Any) -> None:
        """Send a request whose outcome does not matter."""
        if self._up.is_set() and not self._closed:
            self._submit(request).add_done_callback(_forget)

    async def connected(self) -> None:
        """Return when there is a connection. Raises: StoreUnavailable: not in time."""
        try:
            async with asyncio.timeout(self._limits.call_timeout_s):
                await self._up.wait()
        except TimeoutError as error:
            raise StoreUnavailable("no connection to ZooKeeper") from error

    def session(self) -> Session:
        """See the port. A process that was stopped sees the lapse in its first call."""
        lapsed = monotonic() > self._proved_s + self._session_s
        return Session(
            valid_until_s=self._proved_loop_s + self._session_s,
            lost=self._closed or self._lost or lapsed,
            incarnation=self._incarnation,
            connected=self._up.is_set() and not self._closed,
        )

    async def close(self) -> None:
        """End the session; its ephemeral records go at once if ZooKeeper is there."""
        if self._closed:
            return
        self._closed = True
        if self._proof is not None:
            self._proof.cancel()
            await asyncio.gather(self._proof, return_exceptions=True)
        client = self._client
        if client is None:
            return
        try:
            start_thread("zk-stop", self._stop, client)
        except StoreUnavailable:
            return  # logged; the session expires after its timeout
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._ended.wait()
        except TimeoutError:
            _log.warning("could not end the ZooKeeper session; it expires after its timeout")

    def _stop(self, client: Client) -> None:
        """On a thread of its own."""
        try:
            client.stop()
        except Exception:  # a thread's root; the session lapses by itself
            _log.debug("kazoo did not stop", exc_info=True)
        self._outbox.post(self._ended.set)

    def _submit(self, request: Any) -> "asyncio.Future[Any]":
        if self._client is None or self._closed or not self._up.is_set():
            raise StoreUnavailable("no connection to ZooKeeper")
        future: asyncio.Future[Any] = self._loop.create_future()
        self._client.send(request, _Reply(future, self._outbox))
        return future

    # --- called by kazoo, in order --------------------------------------------------------------

    def _connected(self, session_id: int, session_s: float) -> None:
        if session_id != self._session_id:
            self._incarnation += 1
            self._session_id = session_id
        _log.info("connected to ZooKeeper: session=%x timeout_s=%g", session_id, session_s)
        self._session_s = session_s
        self._lost = False
        self._up.set()
        self.on_connected()

    def _disconnected(self) -> None:
        if not self._closed:
            _log.warning(
                "lost the connection to ZooKeeper at %s; reconnecting", self._address.hosts
            )
        self._up.clear()

    def _session_lost(self) -> None:
        self._up.clear()
        self._lost = True
        if self._client is not None and self._client.is_refused and not self._opened.done():
            text = "[zookeeper] auth: ZooKeeper refuses the credential"
            self._opened.set_exception(ConfigError(text))

    def _changed(self, path: str) -> None:
        self.on_change(path)

    # --- the session ----------------------------------------------------------------------------

    async def _prove(self) -> None:
        """Ask something at every turn; an answer proves that the session lived when we asked."""
        while True:
            await self._up.wait()
            asked_loop_s, asked_s = self._loop.time(), monotonic()
            session_id = self._session_id
            try:
                async with asyncio.timeout(self._session_s * SILENCE_PART):
                    await self._answer(Exists(self._address.root, None))
            except TimeoutError:
                _log.warning("ZooKeeper does not answer; closing the connection")
                if self._client is not None:
                    self._client.drop_connection()
                self._up.clear()
            except (*_UNKNOWN, StoreUnavailable):
                await asyncio.sleep(LOST_PAUSE_S)  # kazoo reports the loss of the connection next
            else:
                if session_id == self._session_id:
                    self._proved_loop_s, self._proved_s = asked_loop_s, asked_s
                if not self._opened.done():
                    self._opened.set_result(None)
                await asyncio.sleep(self._session_s / PROOFS_PER_SESSION)

    async def _answer(self, request: Any) -> None:
        """Await any answer, also a refusal."""
        try:
            await self._submit(request)
        except _UNKNOWN:
            raise
        except KazooException:
            return


def _forget(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()
