"""One request of a Kafka client, and who sent it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from opentalos.model.identity import GUEST, Principal
from opentalos.wire.kafka.apis import Api, RequestHeader, write_response
from opentalos.wire.kafka.spec import KafkaStruct


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

    def close(self) -> None:
        """The connection is gone."""
        self.closed = True
        for closer in self.closers:
            closer()


class KafkaCall:
    """A decoded request. It is answered once, in any order: the connection keeps the order."""

    __slots__ = ("_done", "answered", "api", "gone", "header", "request", "session")

    def __init__(
        self,
        api: Api,
        header: RequestHeader,
        request: Any,
        session: ClientSession,
        done: Callable[["KafkaCall", list[bytes | bytearray | memoryview]], None],
    ) -> None:
        self.api, self.header, self.request, self.session = api, header, request, session
        self._done = done
        self.answered = False
        # Called when nobody waits for the answer any more; set by who can end the work early.
        self.gone: Callable[[], object] | None = None

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

    def answer(self, response: KafkaStruct) -> None:
        """Send a response."""
        raw = write_response(self.api, self.version, self.header.correlation_id, response)
        self.answer_raw([raw])

    def answer_raw(self, pieces: list[bytes | bytearray | memoryview]) -> None:
        """Send a whole response with its size and header; no pieces: none is sent."""
        if not self.answered:
            self.answered = True
            self._done(self, pieces)
