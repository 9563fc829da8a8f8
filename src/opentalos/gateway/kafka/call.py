"""One request of a Kafka client, and who sent it."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from opentalos.broker.long_work import SHORT_ITEMS, LongWork
from opentalos.gateway.slots import tenant_of
from opentalos.model.address import is_local, network_of
from opentalos.model.errors import InvalidCredential, TalosError
from opentalos.model.identity import GUEST, Principal
from opentalos.wire.kafka.apis import Api, RequestHeader, write_response
from opentalos.wire.kafka.pace import MessageTooLarge, Pace, TooManyItems, give_up
from opentalos.wire.kafka.spec import KafkaStruct

S = TypeVar("S")
T = TypeVar("T")

_log = logging.getLogger("opentalos.kafka")


@dataclass(slots=True, kw_only=True)
class ClientSession:
    """What a connection knows of its client.

    ``state`` holds what handlers keep for the connection, by their own type.
    """

    peer: str
    network: str  # what counts as one client address
    private: bool  # nobody else can read what is sent
    caller: Principal = GUEST
    authenticated: bool = False
    # The principal as it is now; raises InvalidCredential once the key or token does not hold.
    check: Callable[[], Principal] | None = None
    ends_s: float = 0.0  # Unix time when key or token expires; 0: it does not
    ends: bool = False  # the connection ends with the next answer
    state: dict[type, Any] = field(default_factory=dict)
    closed: bool = False  # the connection is gone
    closers: list[Callable[[], object]] = field(default_factory=list)  # called once it is

    @property
    def tenant(self) -> str:
        """Whose requests these are; a guest, and who is not known yet, counts by address."""
        return tenant_of(self.caller, self.network)

    def look(self) -> str:
        """Why the client may send nothing more: its key or principal is gone; empty: it may.

        A key that has expired may still be followed by another, which clients send before their
        next request; ``check_session`` refuses any other.
        """
        if self.check is None or self.ends or 0.0 < self.ends_s <= time.time():
            return ""
        try:
            self.caller = self.check()
        except InvalidCredential as error:
            self.ends = True
            return str(error)
        return ""

    def close(self) -> None:
        """The connection is gone."""
        self.closed = True
        for closer in self.closers:
            closer()


def session_of(transport: asyncio.Transport, *, tls: bool) -> ClientSession:
    """The session of a connection that was just accepted."""
    name = transport.get_extra_info("peername")
    peer = str(name[0]) if isinstance(name, tuple) and name else ""
    private = tls or is_local(peer, transport.get_extra_info("sockname"))
    return ClientSession(peer=peer, network=network_of(peer), private=private)


class Received(NamedTuple):
    """A decoded request. ``items``: of all its arrays."""

    api: Api
    header: RequestHeader
    request: Any
    items: int = 0


class KafkaCall:
    """A decoded request. It is answered once, in any order: the connection keeps the order.

    Whoever works on many items awaits ``piece`` for each, so that the loop does other work too.
    """

    __slots__ = (
        "_done", "_left", "_work", "_writing", "answered", "api", "gone", "header", "items",
        "refusal", "request", "session",
    )  # fmt: skip

    def __init__(
        self,
        received: Received,
        session: ClientSession,
        work: LongWork,
        done: Callable[["KafkaCall", list[bytes | bytearray | memoryview]], None],
    ) -> None:
        self.api, self.header, self.request, self.items = received
        self.session, self._work, self._done = session, work, done
        # Why nothing of the call may be done; see ``check``.
        self.refusal: TalosError | None = None
        self.answered = False
        # Called when nobody waits for the answer any more; set by who can end the work early.
        self.gone: Callable[[], object] | None = None
        self._left = SHORT_ITEMS
        self._writing: asyncio.Task[None] | None = None

    @property
    def caller(self) -> Principal:
        """The principal of the connection."""
        return self.session.caller

    @property
    def version(self) -> int:
        """Of the request and its response."""
        return self.header.version

    @property
    def peer(self) -> str:
        """Address of the client, for log lines and the audit."""
        return self.session.peer

    @property
    def request_id(self) -> str:
        """The client's id and its number of the request; both are its own choice."""
        return f"{self.header.client_id or ''}/{self.header.correlation_id}"

    def check(self) -> None:
        """Before each item of an administrative call, so that a refusal is the item's answer.

        Raises: ThrottleRejected: the tenant's rate of such items is used up.
        """
        if self.refusal is not None:
            raise self.refusal

    async def piece(self, items: int = 1) -> None:
        """So many items are next; in between, others have their turn."""
        self._left -= items
        if self._left < 0:
            self._left = SHORT_ITEMS - items
            await self._work.pause()

    async def each(self, items: Sequence[S], convert: Callable[[S], T], cost: int = 1) -> list[T]:
        """Convert items one by one, in pieces. Args: cost: of each, in items of ``piece``."""
        size, converted = max(1, SHORT_ITEMS // cost), list[T]()
        for start in range(0, len(items), size):
            some = items[start : start + size]
            await self.piece(cost * len(some))
            converted += map(convert, some)
        return converted

    def answer(self, response: KafkaStruct) -> None:
        """Send a response; one with many items later, encoded in pieces."""
        write = partial(write_response, self.api, self.version, self.header.correlation_id)
        try:
            self.answer_raw([write(response, Pace(give_up))])
        except TooManyItems:
            writing = self._write_long(partial(write, response))
            self._writing = asyncio.get_running_loop().create_task(writing)

    async def _write_long(self, write: Callable[[Pace], bytearray]) -> None:
        try:
            async with self._work.turn(self.session.tenant, patient=True) as turn:
                raw = await turn.in_pieces(lambda pause: write(Pace(pause)))
        except MessageTooLarge as error:
            _log.warning(
                "closing a connection: the answer to %s has %s",
                self.api.key.name, error, extra={"peer": self.peer},
            )  # fmt: skip
            self.session.ends = True
            self.answer_raw([])
        except Exception as error:
            _log.exception("%s could not be answered", self.api.key.name, exc_info=error)
            self.session.ends = True
            self.answer_raw([])
        else:
            self.answer_raw([raw])

    def answer_raw(self, pieces: list[bytes | bytearray | memoryview]) -> None:
        """Send a whole response with its size and header; no pieces: none is sent."""
        if not self.answered:
            self.answered = True
            self._done(self, pieces)


class Receiver(Protocol):
    """Gets the answers of calls; a connection does."""

    def answered(self, call: KafkaCall, pieces: list[bytes | bytearray | memoryview]) -> None:
        """A call was answered."""


class CallStart(Protocol):
    """Decodes and starts the calls of connections; ``gateway.py`` does."""

    def decode(
        self, frame: memoryview, session: ClientSession, connection: Receiver
    ) -> KafkaCall | None:
        """The call of a frame; None: ``decode_long`` has to read it. Raises: KafkaFormatError."""

    async def decode_long(
        self, frame: memoryview, session: ClientSession, connection: Receiver
    ) -> KafkaCall:
        """The call of a frame with many items, read in pieces. Raises: KafkaFormatError."""

    def admit(self, session: ClientSession, found: Mapping[str, Any] | None) -> None:
        """Say who a client with this certificate is, before it authenticates."""

    def overlaps(self, call: KafkaCall) -> bool:
        """Whether it may begin while calls of its kind are under way."""

    def start(self, call: KafkaCall) -> None:
        """Begin it; it answers itself."""
