"""PeerGateway: calls of other servers below ``/internal/v1/``; each must prove its origin."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.reply_format import head
from opentalos.gateway.peer.proofs import ProofReader
from opentalos.gateway.rest.routing.errors import status_of
from opentalos.model.errors import ExcessivePending, TalosError
from opentalos.ports.peers import CallRequest
from opentalos.wire.peer_errors import error_document
from opentalos.wire.peer_proof import CALL_PREFIX, VERSION

TASKS_MAX = 1_000  # calls under way, whole server
_JSON = b"application/json"
_FORBIDDEN = 403
_OK_HEAD = head(200, _JSON)

_log = logging.getLogger("opentalos.peer")


class PeerCalls(Protocol):
    """What answers the calls: ``broker/peer_rpc/dispatch.py``."""

    def answer(self, request: CallRequest) -> Awaitable[bytes]: ...


class PeerGateway:
    """Checks the proof, runs the call, replies with JSON; an error is sent by its name."""

    def __init__(self, calls: PeerCalls, proofs: ProofReader) -> None:
        self._calls, self._proofs = calls, proofs
        self._tasks: set[asyncio.Task[None]] = set()

    def prefix_routes(self) -> list[tuple[bytes, Callable[[Exchange], None]]]:
        """Handlers by the beginning of the path."""
        return [(CALL_PREFIX, self._serve)]

    def _serve(self, exchange: Exchange) -> None:
        try:
            self._proofs.call(exchange)
        except TalosError as error:
            _reply_error(exchange, error, _FORBIDDEN)
            return
        if len(self._tasks) >= TASKS_MAX:
            _reply_error(
                exchange,
                ExcessivePending(f"too many calls of other servers in flight: {TASKS_MAX}"),
            )
            return
        task = asyncio.get_running_loop().create_task(self._run(exchange))
        exchange.late = partial(_end, exchange, task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, exchange: Exchange) -> None:
        call = exchange.path[len(CALL_PREFIX) :].decode("latin-1")
        try:
            body = await self._calls.answer(CallRequest(call, exchange.body, _version(exchange)))
        except TalosError as error:
            _reply_error(exchange, error)
        except Exception:
            _log.exception("peer call failed unexpectedly", extra={"call": call})
            exchange.reply_text(500, "internal error")
        else:
            exchange.reply(_OK_HEAD, body)


def _end(exchange: Exchange, task: asyncio.Task[None], error: TalosError) -> None:
    """Abandon a call that takes too long."""
    task.cancel()
    _reply_error(exchange, error)


def _version(exchange: Exchange) -> int:
    """Of the peer protocol that the caller speaks; 0: it sends none, as the first servers."""
    shown = exchange.headers.get(VERSION, b"0")
    return int(shown) if shown.isdigit() else 0


def _reply_error(exchange: Exchange, error: TalosError, status: int = 0) -> None:
    body = json.dumps(error_document(error)).encode()
    exchange.reply(head(status or status_of(error), _JSON), body)
