"""Reads a topic as a member of a consumer group, for synchronous code.

Hand-written where it differs from the asyncio class: callbacks run in the application's thread
while it waits, and a forked child is refused. The rest is derived (``sync/blocking.py``).
"""

import os
import weakref
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, Literal, Self, TypeVar, overload

from opentalos.sdk import aio
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.consumer.delivery import Delivery
from opentalos.sdk.core.consumer.settings import Callbacks, ConsumerCounters, ConsumerSettings
from opentalos.sdk.core.values import Record
from opentalos.sdk.errors import ClientClosed
from opentalos.sdk.sync.blocking import Synchronous, blocking, blocking_on_loop
from opentalos.sdk.sync.client import Client, attach
from opentalos.sdk.sync.loop_thread import LoopThread
from opentalos.sdk.sync.user_thread import UserThread

_T = TypeVar("_T")


class TalosConsumer(Synchronous[aio.TalosConsumer]):
    """One worker of a consumer group: ``for record in consumer``.

    As ``opentalos.sdk.aio.TalosConsumer``: what counts as processed, and what is committed. Leases
    are renewed in the SDK's own thread, so the application may take its time with a record; it
    keeps its partitions as long as its process lives. Only one thread may iterate; callbacks run
    in it while it waits for records, or in ``close``. The other methods are for any thread.

    Not for use in a forked child: it raises ClientClosed there.

    Args: client: shared with other objects, or a configuration for a client of its own; topic:
    ``name`` or ``organisation/name``.
    """

    def __init__(
        self,
        client: Client | ClientConfig,
        topic: str,
        group: str,
        settings: ConsumerSettings | None = None,
        callbacks: Callbacks | None = None,
    ) -> None:
        self._client, self._owned = attach(client)
        self._thread = LoopThread.shared()
        settings = settings or ConsumerSettings()
        self._user = UserThread(self._thread, settings.revoke_wait_s)
        wrapped = self._user.callbacks(callbacks or Callbacks())

        async def make() -> aio.TalosConsumer:
            inner = self._client.on(self._thread)
            return aio.TalosConsumer(inner, topic, group, settings, wrapped)

        self._inner = self._thread.run(make())
        self._thread.close_at_exit(self._inner, partial(_close, self._client))
        self._delivery: Delivery | None = None
        self._foreign = False  # this is a forked child
        _alive.add(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_inner"):
            self._thread.close_soon(self._inner)

    def __iter__(self) -> Iterator[Record]:
        while (delivery := self._next()) is not None:
            yield from delivery.open()

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Register and take the first partitions; does nothing if that is done.

        Raises: TopicNotExist, PermissionDenied, TooManyConsumers; ClientClosed.
        """
        self._check()
        self._user.wait(self._inner.start())

    def close(self) -> None:
        """Hand out nothing more, tell ``on_revoked``, commit what is processed, give up all
        partitions. Iterations end, also in another thread.

        Raises: what ``on_revoked`` raises, when all else is done.
        """
        if self._foreign:
            return
        try:
            self._user.wait(self._inner.close(), to_its_end=True)
        finally:
            self._thread.close_soon(self._inner)  # forgets it
            if self._owned:
                self._client.close()

    # --- records ---------------------------------------------------------------------------------

    @overload
    def batches(self) -> Iterator[list[Record]]: ...
    @overload
    def batches(self, *, arrow: Literal[True]) -> Iterator[Any]: ...

    def batches(self, *, arrow: bool = False) -> Iterator[Any]:
        """What was fetched of one partition, at least one record, as a list or a
        ``pyarrow.Table`` (``opentalos.sdk.arrow.SCHEMA``); without end until ``close``."""
        while (delivery := self._next()) is not None:
            yield delivery.table() if arrow else delivery.records()

    def poll(self, timeout_s: float) -> list[Record]:
        """The next batch; empty if none arrives in time, or the consumer is closed."""
        delivery = self._next(timeout_s)
        return [] if delivery is None else delivery.records()

    def run(self, callback: Callable[[list[Record]], None]) -> None:
        """Call ``callback`` with one batch after the other until ``close``.

        If it raises, its batch is not processed: the consumer closes, committing what was, and
        the error goes on.
        """
        try:
            for records in self.batches():
                callback(records)
        finally:
            self.close()

    def _next(self, timeout_s: float | None = None) -> Delivery | None:
        self._check()
        found = self._user.wait(self._inner._next_delivery(self._delivery, timeout_s))
        if found is not None:
            self._delivery = found
        return found

    # --- positions -----------------------------------------------------------------------------

    commit = blocking(aio.TalosConsumer.commit)
    seek = blocking(aio.TalosConsumer.seek)
    position = blocking_on_loop(aio.TalosConsumer.position)
    pause = blocking_on_loop(aio.TalosConsumer.pause)
    resume = blocking_on_loop(aio.TalosConsumer.resume)

    @property
    def assignment(self) -> tuple[int, ...]:
        """The partitions assigned now, including those about to be released."""

        async def on_loop(inner: aio.TalosConsumer) -> tuple[int, ...]:
            return inner.assignment

        return self._run(on_loop)

    @property
    def worker_id(self) -> str:
        """As the group knows this consumer; empty before the start."""
        return self._inner.worker_id

    @property
    def counters(self) -> ConsumerCounters:
        """What happened since the start."""
        return self._inner.counters

    def _run(self, call: Callable[[aio.TalosConsumer], Coroutine[Any, Any, _T]]) -> _T:
        self._check()
        return self._thread.run(call(self._inner))

    def _check(self) -> None:
        if self._foreign:
            raise ClientClosed("a consumer cannot be used in a forked child; make a new one there")

    def _forked(self) -> None:
        """In the child: what was read ahead is the parent's to deliver."""
        self._foreign = True
        if self._delivery is not None:
            self._delivery.cut()


async def _close(client: Client, inner: aio.TalosConsumer) -> None:
    """The client, which closes with its last user, stays open until the consumer has closed."""
    await inner.close()


_alive: "weakref.WeakSet[TalosConsumer]" = weakref.WeakSet()


def _refuse_in_child() -> None:
    for consumer in list(_alive):
        consumer._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_refuse_in_child)
