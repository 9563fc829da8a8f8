"""One task of a write: from Spark's record batches to stored blocks."""

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from opentalos.model.errors import TalosError
from opentalos.pipelines.datasource.connection import client_of
from opentalos.pipelines.datasource.sink.block_writer import BlockWriter, Stored
from opentalos.pipelines.datasource.sink.columns import WriteColumns
from opentalos.pipelines.datasource.sink.identity import (
    Identity,
    TaskFacts,
    forgetful_identity,
    identity_of,
)
from opentalos.pipelines.datasource.sink.options import Delivery, WriteOptions
from opentalos.pipelines.datasource.sink.plan import Target, WritePlan, target_of
from opentalos.pipelines.datasource.sink.routing import Router
from opentalos.pipelines.datasource.sink.windows import WINDOW_ROWS_MAX, windows
from opentalos.sdk import Client
from opentalos.sdk.sync.loop_thread import LoopThread

TOKEN_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteJob:
    """A write, sent to its tasks. ``plan``: the plan, or the error of planning."""

    options: WriteOptions
    columns: WriteColumns
    plan: WritePlan | TalosError
    streaming: bool
    token: str  # random, the same for all attempts of this job's tasks

    def store(self, batches: Iterable[Any], facts: TaskFacts) -> Sequence[Stored]:
        """Store all rows; on return they are durable.

        Raises: NotTheSameRows: an earlier attempt stored other rows; BadRequest, TopicNotExist,
        PermissionDenied and others: some rows may be stored, and another attempt does not store
        them twice.
        """
        plan = self.plan
        if isinstance(plan, TalosError):
            raise plan
        client, thread = client_of(self.options.config), LoopThread.shared()
        writer = client.run(_block_writer(self._identity(plan, facts), self.columns.create_time))
        router = Router(
            self.options,
            self.columns,
            lambda name: plan.target or _found(client, name),
            task=facts.task,
            create_ms=plan.now_ms,
        )
        taken: Any = None  # future of the last block; the next block is encoded meanwhile
        try:
            for window in windows(batches, self.columns.sized, WINDOW_ROWS_MAX):
                for cut in router.cuts(window):
                    if taken is not None:
                        taken.result()
                    taken = thread.submit(writer.add(cut))
            if taken is not None:
                taken.result()
            return thread.run(writer.finish())
        except BaseException:
            thread.run(writer.abandon())
            raise

    def _identity(self, plan: WritePlan, facts: TaskFacts) -> Identity | None:
        if not plan.deduplicates:
            return None
        if self.options.delivery is Delivery.AT_LEAST_ONCE:
            return forgetful_identity(facts, secrets.token_hex(TOKEN_BYTES))
        return identity_of(
            facts, streaming=self.streaming, write_id=self.options.write_id, token=self.token
        )


def _block_writer(identity: Identity | None, own_times: bool) -> Callable[[Any], Any]:
    async def made(client: Any) -> BlockWriter:
        return BlockWriter(client, identity, own_times=own_times)

    return made


def _found(client: Client, name: str) -> Target:
    return client.run(lambda connected: target_of(connected, name))
