"""KafkaGateway: which requests are served, in which versions, and by which handler.

A handler is a coroutine that returns the response, or a function that answers the call later. An
error that it does not turn into a response itself closes the connection, as nothing in the protocol
says otherwise; so each handler answers errors where its response has room for them.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from opentalos.broker.admin.certificate_principals import CertificatePrincipals
from opentalos.broker.broker import Broker
from opentalos.broker.long_work import work_for
from opentalos.gateway.http.fairness.turns import TURN_S
from opentalos.gateway.http.request_scope import request_scope
from opentalos.gateway.http.tls_connection import certificate_of
from opentalos.gateway.kafka.call import ClientSession, KafkaCall, Received, Receiver
from opentalos.gateway.kafka.errors import code_of
from opentalos.gateway.kafka.fetch_sessions import FetchSessions
from opentalos.gateway.kafka.listener import KafkaPort
from opentalos.gateway.kafka.mechanisms import Mechanisms
from opentalos.gateway.slots import Slots
from opentalos.gateway.thrift_http.authentication import Authenticator
from opentalos.model.errors import InvalidCredential, TalosError, ThrottleRejected
from opentalos.model.identity import Principal
from opentalos.wire.kafka.apis import (
    Api,
    ApiKey,
    RequestHeader,
    api_of,
    read_header,
    read_request,
)
from opentalos.wire.kafka.codec import ITEMS_MAX, Cursor, KafkaFormatError
from opentalos.wire.kafka.pace import MessageTooLarge, Pace, TooManyItems, give_up
from opentalos.wire.kafka.produce_codec import read_produce
from opentalos.wire.kafka.spec import KafkaStruct, Versions, includes

CALLS_MAX: Final = 10_000  # under way, long polls included
CALLS_KEPT: Final = 100  # of them, for administrators

ENDS_WITH_CLIENT: Final = frozenset(  # they only wait and read
    (
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.LIST_GROUPS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    )
)

_log = logging.getLogger("opentalos.kafka")


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What handlers use. ``cluster``: its id, of a single server the server's name."""

    broker: Broker
    authenticator: Authenticator
    mechanisms: Mechanisms
    certificates: CertificatePrincipals | None  # None: certificates identify nobody
    port: KafkaPort
    cluster: str
    versions: Mapping[ApiKey, Versions]  # of what is served
    fetch_sessions: FetchSessions = field(default_factory=FetchSessions)


class Served(NamedTuple):
    """How a request is served.

    Args: handle: a coroutine function that returns the response, None if it has answered the call,
            or with ``direct`` a function that answers the call, now or later.
        versions: those we serve, within what the definitions have.
        open: also before the client has authenticated.
        overlaps: it may begin while others of the connection that overlap are under way.
        items_max: of its arrays; one with more ends the connection.
        administrative: its items are charged to the tenant first; ``handle`` asks ``call.check``.
    """

    handle: Callable[[Services, KafkaCall], Awaitable[KafkaStruct | None] | None]
    versions: Versions
    open: bool = False
    direct: bool = False
    overlaps: bool = False
    items_max: int = ITEMS_MAX
    administrative: bool = False


Table = Mapping[ApiKey, Served]


class KafkaGateway:
    """Decodes and starts the calls of all connections."""

    def __init__(self, services: Services, table: Table) -> None:
        self._services, self._table = services, table
        self._slots = Slots("Kafka requests", CALLS_MAX, CALLS_KEPT)
        self._tasks: set[asyncio.Task[None]] = set()

    def decode(
        self, frame: memoryview, session: ClientSession, connection: Receiver
    ) -> KafkaCall | None:
        """The call of a frame; None: it has so many items that ``decode_long`` has to read them.

        Raises: KafkaFormatError: also for what is not served.
        """
        cursor = Cursor(frame)
        served, api, header = self._head(cursor)
        if api.key is ApiKey.API_VERSIONS and not includes(served.versions, header.version):
            # The client learns from the answer which versions there are.
            header = header._replace(version=api.versions[0])
            session.state[UnknownVersion] = True
            return self._call(Received(api, header, api.request()), session, connection)
        if not includes(served.versions, header.version):
            raise KafkaFormatError(f"{api.key.name} version {header.version} is not served")
        if not served.open:
            check_session(session, api)
        found = read_produce(header.version, cursor) if api.key is ApiKey.PRODUCE else None
        if found is not None:
            return self._call(Received(api, header, found), session, connection)
        try:
            received = _body(served, api, header, cursor, give_up)
        except TooManyItems:
            return None
        return self._call(received, session, connection)

    async def decode_long(
        self, frame: memoryview, session: ClientSession, connection: Receiver
    ) -> KafkaCall:
        """What ``decode`` did not read, in pieces. Raises: KafkaFormatError."""
        cursor = Cursor(frame)
        head = self._head(cursor)
        async with self._services.broker.work.turn(session.tenant, patient=True) as turn:
            received = await turn.in_pieces(partial(_body, *head, cursor))
        return self._call(received, session, connection)

    def _call(self, received: Received, session: ClientSession, connection: Receiver) -> KafkaCall:
        return KafkaCall(received, session, self._services.broker.work, connection.answered)

    def _head(self, cursor: Cursor) -> tuple[Served, Api, RequestHeader]:
        header = read_header(cursor)
        served = self._find(header.api_key)
        return served, api_of(ApiKey(header.api_key)), header

    def _find(self, key: int) -> Served:
        try:
            return self._table[ApiKey(key)]
        except (KeyError, ValueError):
            raise KafkaFormatError(f"requests of key {key} are not served") from None

    def admit(self, session: ClientSession, found: Mapping[str, Any] | None) -> None:
        """Who a client is before it authenticates: by its certificate, or a guest.

        Args: found: the verified certificate, as ``SSLObject.getpeercert``.
        """
        services = self._services
        session.authenticated = services.authenticator.anonymous
        certificate, certificates = certificate_of(found), services.certificates
        if certificate is None or certificates is None:
            return
        name = certificates.name(certificate, time.time())
        if not name:
            return

        def check() -> Principal:
            if certificate.expires_s <= time.time():
                raise InvalidCredential("the certificate has expired")
            return certificates.principal(name)

        try:
            session.caller = check()
        except InvalidCredential as error:
            services.authenticator.deny(session.peer, b"certificate:", error)
            session.authenticated = False
            return
        session.check, session.authenticated = check, True

    def overlaps(self, call: KafkaCall) -> bool:
        """Whether it may begin while calls of its kind are under way."""
        return self._table[call.api.key].overlaps

    def start(self, call: KafkaCall) -> None:
        """Begin a call; it answers itself."""
        port, served = self._services.port, self._table[call.api.key]
        port.requests_by_api[call.api.key.name.lower()] += 1
        if served.direct:
            try:
                served.handle(self._services, call)
            except Exception as error:
                self._broken(call, error)
            return
        try:
            slot = self._slots.take(call.caller, call.session.network)
        except TalosError as error:
            self._broken(call, error)
            return
        if port.turns.shared:
            port.turns.expect(TURN_S)  # of the next pass, in which its handler begins
        task = asyncio.get_running_loop().create_task(self._run(served, call))
        if call.api.key in ENDS_WITH_CLIENT:
            call.gone = task.cancel
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(slot.free)
        task.add_done_callback(partial(_end_cancelled, call))

    async def _run(self, served: Served, call: KafkaCall) -> None:
        work_for(call.session.tenant)
        try:
            if served.administrative:
                await self._charge(call)
            made: Any = served.handle(self._services, call)
            with request_scope(call):
                response = await made
                if response is not None:
                    call.answer(response)
        except Exception as error:
            self._broken(call, error)

    async def _charge(self, call: KafkaCall) -> None:
        """Wait until the tenant may ask for so many items, or note that it may not."""
        try:
            await self._services.broker.context.admin_items.admit(call.caller, 1 + call.items)
        except ThrottleRejected as error:
            self._services.port.failed(call.session.peer, call.api.key.name.lower(), error)
            call.refusal = error

    def _broken(self, call: KafkaCall, error: Exception) -> None:
        """Answer with the error where the response has a place for it, else end the connection:
        an empty answer would say that there is nothing."""
        self._services.port.failed(call.session.peer, call.api.key.name.lower(), error)
        if not isinstance(error, TalosError | MessageTooLarge):
            _log.exception("%s failed with an internal error", call.api.key.name, exc_info=error)
        fields = call.api.response.SPEC.fields
        if any(it.name == "error_code" and includes(it.versions, call.version) for it in fields):
            call.answer(call.api.response(error_code=int(code_of(error))))
            return
        call.session.ends = True
        call.answer_raw([])

    async def drain(self, timeout_s: float) -> None:
        """Wait for calls under way, then cancel those that hang."""
        if not self._tasks:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*self._tasks, return_exceptions=True)
        for task in list(self._tasks):
            task.cancel()


def _end_cancelled(call: KafkaCall, task: asyncio.Task[None]) -> None:
    """A task that is cancelled may not even have begun; its call must end all the same."""
    if task.cancelled() and not call.answered:
        call.session.ends = True  # what follows would be taken for the answer
        call.answer_raw([])


def check_session(session: ClientSession, api: Api) -> None:
    """Whether the client may send this now, as the principal that it still is.

    Raises: KafkaFormatError: the connection has to end.
    """
    if not session.authenticated:
        raise KafkaFormatError(f"{api.key.name} before the client has authenticated")
    if session.check is not None:
        try:
            session.caller = session.check()
        except InvalidCredential as error:
            raise KafkaFormatError(f"{api.key.name}: {error}") from error


def _body(
    served: Served, api: Api, header: RequestHeader, cursor: Cursor, pause: Callable[[], None]
) -> Received:
    cursor.items_left, cursor.pace = served.items_max, Pace(pause)
    found = read_request(api, header.version, cursor)
    return Received(api, header, found, served.items_max - cursor.items_left)


class UnknownVersion:
    """Marks a session whose ApiVersions request had a version that is not served."""
