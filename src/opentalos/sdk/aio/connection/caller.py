"""Runs calls: picks the server, retries, and corrects clock skew."""

import asyncio
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from opentalos.model.errors import (
    ClockSkewed,
    ExcessivePending,
    InvalidCredential,
    OutcomeUnknown,
    PartitionNotServing,
    RequestError,
    TalosError,
    Unavailable,
)
from opentalos.sdk.aio.connection import messages
from opentalos.sdk.aio.connection.signer import REQUEST_ID, TIMESTAMP, Signer
from opentalos.sdk.aio.connection.transport import Transport
from opentalos.sdk.core.addressing import Addressing, Endpoints
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.content_macs import ContentMacs
from opentalos.sdk.core.operation import Operation, Reply, result_of
from opentalos.sdk.core.retry import RetryPolicy
from opentalos.sdk.core.trace_hooks import TRACEPARENT, request_traceparent
from opentalos.sdk.errors import ClientClosed, ConnectFailed, NoReply
from opentalos.wire._generated.message import MESSAGE_SERVICE

if TYPE_CHECKING:
    from opentalos.sdk.aio.connection.threaded_transport import ThreadedTransport

CALLS_MAX: Final = 10_000  # in flight; further calls raise ExcessivePending
CLOCK_CORRECTIONS_MAX: Final = 2  # per request: the clock may jump while it is corrected
_ENDPOINTS_TRIED_MAX: Final = 4  # tried in a row before the backoff grows


def _transport(config: ClientConfig) -> "Transport | ThreadedTransport":
    if not config.threaded:
        return Transport(config)
    # http.client takes time to import.
    from opentalos.sdk.aio.connection.threaded_transport import ThreadedTransport

    return ThreadedTransport(config)


class Caller:
    """Runs the calls of one client. Belongs to the event loop of the first call.

    Args: wall_s: this machine's clock; a skewed one is corrected to the server's; draw: for the
    pauses between attempts, [0, 1).
    """

    def __init__(
        self,
        config: ClientConfig,
        wall_s: Callable[[], float] = time.time,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._config, self._draw = config, draw
        self.transport = _transport(config)
        self.signer = Signer(config.key_id, config.secret, wall_s, config.acting_for)
        self._macs = ContentMacs()
        self._endpoints = Endpoints(config.endpoints)
        self._addressing = Addressing("https" if config.secure else "http")
        self._refreshes: dict[str, asyncio.Task[None]] = {}  # by topic resource, one at a time each
        self._loop: asyncio.AbstractEventLoop | None = None
        self._under_way = 0
        self._closed = False

    async def close(self) -> None:
        """Close all connections; the outcome of calls in flight is unknown."""
        self._closed = True
        for task in list(self._refreshes.values()):
            task.cancel()
        await self.transport.close()

    async def run(self, operation: Operation, deadline_s: float | None = None) -> Any:
        """Run a call with retries, and return its result. ``deadline_s``: including retries;
        None: as configured."""
        if self._under_way >= CALLS_MAX:
            raise ExcessivePending(
                f"call rejected: this client has {CALLS_MAX} calls in flight; wait for some of them"
            )
        self._under_way += 1
        try:
            return await self._try_until_done(operation, deadline_s)
        finally:
            self._under_way -= 1

    async def _try_until_done(self, operation: Operation, deadline_s: float | None) -> Any:
        loop = self.own_loop()
        allowed_s = self._config.deadline_s if deadline_s is None else deadline_s
        policy = RetryPolicy(
            pause_s=(self._config.backoff_s, self._config.backoff_s_max),
            deadline_s=loop.time() + allowed_s,
            repeatable=operation.repeatable,
            reads=operation.reads,
            endpoints=min(self._endpoints.count, _ENDPOINTS_TRIED_MAX),
            random=self._draw,
        )
        body = operation.encode()
        while True:
            url = await self._url_of(operation, policy.left_s(loop.time()))
            timeout_s = min(self._config.request_timeout_s, policy.left_s(loop.time()))
            try:
                result = await self._attempt(url, operation, body, timeout_s)
            except TalosError as error:
                self._learn_from(error, url, operation)
                await asyncio.sleep(policy.pause_after(error, loop.time()))
                if isinstance(error, OutcomeUnknown) and operation.stamped:
                    operation.request.repeated = True
                    body = operation.encode()
                continue
            if operation.partition is not None and result.isTransfer:
                self._addressing.distrust(operation.topic)
            return result

    async def _attempt(self, url: str, operation: Operation, body: bytes, timeout_s: float) -> Any:
        """One request, repeated only if the server rejected its timestamp or MAC."""
        target = f"{url}{operation.service.path}?type={operation.method.name}"
        refused: TalosError
        for _ in range(CLOCK_CORRECTIONS_MAX + 1):
            if self._closed:
                raise ClientClosed("the client is closed; create a new one")
            by_mac = self._macs.accepted(url, len(body))
            headers = self.signer.headers(operation.service.path, body, by_mac=by_mac)
            if (traced := request_traceparent()) is not None:
                headers[TRACEPARENT] = traced
            try:
                reply = await self.transport.post(target, headers, body, timeout_s)
                self._macs.heard(url, len(body), reply.headers)
                return _checked(url, operation, reply)
            except ClockSkewed as error:
                refused = error
                if not self.signer.correct(reply.headers.get(TIMESTAMP)):
                    break
            except TalosError as error:
                refused = error  # of a MAC, before anything was done
                if not by_mac or not isinstance(error, InvalidCredential):
                    error.add_note(f"request {headers[REQUEST_ID]}")  # as in the server's log
                    raise
                self._macs.refused(url)
        raise refused

    def _learn_from(self, error: TalosError, url: str, operation: Operation) -> None:
        """Avoid a server that failed for the next attempt."""
        silent = isinstance(error, ConnectFailed | NoReply)
        refused = isinstance(error, PartitionNotServing) or type(error) is Unavailable
        if silent:
            self._addressing.drop_server(url)
        elif refused and operation.partition is not None:
            self._addressing.drop_partition(operation.topic, operation.partition)
        if silent or refused:
            self._endpoints.failed(url)

    # --- addresses -------------------------------------------------------------------------------

    async def _url_of(self, operation: Operation, left_s: float) -> str:
        """The server for the next attempt. Waits for a schedule map only if the server of the
        partition is unknown."""
        resource, partition = operation.topic, operation.partition
        if partition is None or not self._config.direct:
            return self._endpoints.url
        url = self._addressing.url(resource, partition)
        running = self._refreshes.get(resource)
        if running is None and self._addressing.due(resource, self.own_loop().time()):
            running = asyncio.create_task(self._refresh(resource))
            self._refreshes[resource] = running
        if running is not None and url is None:
            await asyncio.wait([running], timeout=left_s)
            url = self._addressing.url(resource, partition)
        return url or self._endpoints.url

    async def _refresh(self, resource: str) -> None:
        """Fetch the schedule map of a topic once; if that fails, use the endpoint."""
        method = MESSAGE_SERVICE.methods["getScheduleInfo"]
        operation = Operation(MESSAGE_SERVICE, method, messages.schedule_request(resource))
        body = operation.encode()
        url = self._endpoints.url
        try:
            found = await self._attempt(url, operation, body, self._config.request_timeout_s)
        except RequestError:
            self._addressing.learn(resource, {})  # no map, for example of a deleted topic
        except TalosError as error:
            self._learn_from(error, url, operation)
        else:
            servers = self._addressing.learn(resource, messages.addresses_of(found))
            self._endpoints.learn(servers)
        finally:
            del self._refreshes[resource]

    def own_loop(self) -> asyncio.AbstractEventLoop:
        """The running loop. Raises: RuntimeError: not the loop of the first call."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError(
                "call failed: the client belongs to another event loop; create one per loop"
            )
        return loop


def _checked(url: str, operation: Operation, reply: Reply) -> Any:
    """The result of a reply. Raises: the error in it."""
    result = result_of(url, operation.method, reply, views=operation.views)
    if operation.check is not None:
        operation.check(result)
    return result
