"""Reads a topic as a member of a consumer group, for synchronous code.

Hand-written where it differs from the asyncio class: callbacks run in the application's thread
while it waits, and a forked child is refused. The rest is derived (``sync/blocking.py``).
"""

import os
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator
from functools import partial
from typing import Any, Literal, Self, TypeVar, overload

from opentalos.sdk import aio
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.consumer.continuing import Continuing
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
    """A member of a consumer group: ``for record in consumer``.

    Delivery is at least once: records may be redelivered; make processing idempotent. A record or
    batch counts as processed when the next one is requested; auto-commit commits processed records
    only. Leases are renewed in the SDK's own thread, so processing a record may take any time.

    A damaged partition raises CorruptLog once a minute. It keeps its position, and its fetch is
    repeated; whoever requests the next record gets those of the other partitions.

    Only one thread may iterate. Callbacks run in that thread while it waits for records, or in
    ``close``. Any thread may call the other methods. In a forked child every call raises
    ClientClosed.

    Args: client: shared with other objects, or the configuration of a client of its own; topic:
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
        return Continuing(self._records)

    def _records(self) -> Generator[Record, None, None]:
        while (delivery := self._next()) is not None:
            yield from delivery.open()

    # --- life ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the group and get the first partitions; no effect if already started.

        Raises: TopicNotExist, PermissionDenied, TooManyConsumers; ClientClosed.
        """
        self._check()
        self._user.wait(self._inner.start())

    def close(self) -> None:
        """Stop delivery, call ``on_revoked``, commit processed records, leave the group.

        Iterations end, also in other threads.

        Raises: the error of ``on_revoked``, after everything else is done.
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
        """Batches of one partition each, with at least one record, until ``close``.

        An error does not end it: the next request continues with the partitions that are whole.

        Args: arrow: as a ``pyarrow.Table`` of ``opentalos.sdk.arrow.SCHEMA`` instead of a list.
        """
        return Continuing(partial(self._batches, arrow))

    def _batches(self, arrow: bool) -> Generator[Any, None, None]:
        while (delivery := self._next()) is not None:
            yield delivery.table() if arrow else delivery.records()

    def poll(self, timeout_s: float) -> list[Record]:
        """Poll for the next batch; empty if none arrives in time or the consumer is closed."""
        delivery = self._next(timeout_s)
        return [] if delivery is None else delivery.records()

    def run(self, callback: Callable[[list[Record]], None]) -> None:
        """Call ``callback`` with batch after batch until ``close``.

        If it raises, its batch does not count as processed: the consumer commits the earlier
        ones, closes and re-raises.
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
        """The id of this worker in the group; empty before ``start``."""
        return self._inner.worker_id

    @property
    def counters(self) -> ConsumerCounters:
        """Counters since the start."""
        return self._inner.counters

    def _run(self, call: Callable[[aio.TalosConsumer], Coroutine[Any, Any, _T]]) -> _T:
        self._check()
        return self._thread.run(call(self._inner))

    def _check(self) -> None:
        if self._foreign:
            raise ClientClosed("a consumer cannot be used in a forked child; make a new one there")

    def _forked(self) -> None:
        """In a forked child: the parent delivers what was prefetched."""
        self._foreign = True
        if self._delivery is not None:
            self._delivery.cut()


async def _close(client: Client, inner: aio.TalosConsumer) -> None:
    """Close the consumer; holding ``client`` keeps it open until then."""
    await inner.close()


_alive: "weakref.WeakSet[TalosConsumer]" = weakref.WeakSet()


def _refuse_in_child() -> None:
    for consumer in list(_alive):
        consumer._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_refuse_in_child)
