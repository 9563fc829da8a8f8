"""Tasks of Thrift calls: bounded in shares, each answered once, cancelled at shutdown."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from opentalos.broker.long_work import LongWork, work_for
from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.http.request_scope import request_scope
from opentalos.gateway.slots import Slots, tenant_of
from opentalos.gateway.thrift_http.replies import CallForm, Check, ReadCall, reply_no_call
from opentalos.model.errors import ExcessivePending, OutcomeUnknown, TalosError
from opentalos.model.identity import Principal
from opentalos.wire.thrift.error import SchemaMismatch, ThriftError
from opentalos.wire.thrift.message import Call

TASKS_MAX = 10_000  # concurrent calls of one gateway, long polls included
TASKS_KEPT = 100  # of them, for administrators

_log = logging.getLogger("opentalos.thrift")


class CallTasks:
    """The calls of one gateway.

    Args: reply: answers a call with an error in the gateway's form. unknown_in_form: use that form
        for unexpected errors too, because clients retry a status of 500.
        in_status: as ``reply_no_call`` has it.
    """

    def __init__(
        self,
        reply: Callable[[Exchange, CallForm, TalosError], None],
        *,
        unknown_in_form: bool = False,
        in_status: bool = False,
    ) -> None:
        self._reply, self._unknown_in_form, self._in_status = reply, unknown_in_form, in_status
        self._slots = Slots("calls", TASKS_MAX, TASKS_KEPT)
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self.failures = 0  # requests answered with an error

    def spawn(
        self,
        exchange: Exchange,
        form: CallForm,
        caller: Principal,
        call: Coroutine[Any, Any, None],
    ) -> asyncio.Task[None] | None:
        """Run a call in its own task; a connection has at most one under way.

        None: it was refused, since its caller has no more places.
        """
        try:
            slot = self._slots.take(caller, exchange.network)
        except ExcessivePending as error:
            call.close()
            self.refuse(exchange, form, error)
            return None
        exchange.late = partial(self.refuse, exchange, form)
        task = asyncio.get_running_loop().create_task(
            self._guard(exchange, form, call, tenant_of(caller, exchange.network))
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(slot.free)
        return task

    async def _guard(
        self, exchange: Exchange, form: CallForm, call: Coroutine[Any, Any, None], tenant: str
    ) -> None:
        work_for(tenant)
        with request_scope(exchange):
            try:
                await call
            except TalosError as error:
                self.refuse(exchange, form, error)
            except Exception as error:
                self.broken(exchange, form, error)

    async def whole_call(
        self,
        exchange: Exchange,
        read: ReadCall,
        work: LongWork,
        caller: Principal,
        check: Check | None = None,
    ) -> Call | None:
        """The call with its arguments; None: it is answered, since they are none or come too late,
        and nothing was done. ``check``: as ``ReadCall.complete`` has it."""
        if read.call is not None:
            return read.call
        try:
            call = await read.complete(work, caller, check)
        except SchemaMismatch as error:
            self.refuse(exchange, read.form, error)
            return None
        except ThriftError as error:
            self.failures += 1
            reply_no_call(exchange, read.form, error, in_status=self._in_status)
            return None
        return None if exchange.answered else call

    def end_when_late(
        self, exchange: Exchange, form: CallForm, task: asyncio.Task[None] | None
    ) -> None:
        """Cancel a read at its deadline, so that hanging reads do not use up the tasks."""
        if task is not None:
            exchange.late = partial(self._end, exchange, form, task)

    def _end(
        self, exchange: Exchange, form: CallForm, task: asyncio.Task[None], error: TalosError
    ) -> None:
        task.cancel()
        self.refuse(exchange, form, error)

    def refuse(self, exchange: Exchange, form: CallForm, error: TalosError) -> None:
        """Answer with the error; nothing may raise here (docs/internals/hot-path.md#rule-1)."""
        self.failures += 1
        try:
            self._reply(exchange, form, error)
        except Exception as broken:
            self.broken(exchange, form, broken)

    def broken(self, exchange: Exchange, form: CallForm, error: Exception) -> None:
        """An unexpected error: log it with its trace; the client gets the request id."""
        self.failures += 1
        exchange.failure = type(error).__name__
        request = f"{exchange.request_id}-{next(self._numbers)}"
        fields = {"request": request, "rpc": form.method.name, "peer": exchange.peer}
        _log.error("call failed with an internal error", exc_info=error, extra=fields)
        text = f"internal error, request {request}"
        if self._unknown_in_form:
            with contextlib.suppress(Exception):  # the form itself may be the cause
                self._reply(exchange, form, OutcomeUnknown(text))
        exchange.reply_text(500, text)  # does nothing after a reply

    async def drain(self, timeout_s: float) -> None:
        """Wait for calls under way, then cancel those that hang."""
        if self._tasks:
            _, hanging = await asyncio.wait(set(self._tasks), timeout=timeout_s)
            for task in hanging:
                task.cancel()
