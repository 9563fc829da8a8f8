"""PutFastPath: plain puts that only have to wait for their shard's group.

Source: docs/internals/hot-path.md#rule-4.

The SDS gateway calls it first: a task, its futures and the coroutines in between cost a third of a
put. Every other call, and every rejection, is left to ``TableService.write``, so each rule and each
error text is in one place.
"""

from collections.abc import Callable
from typing import Protocol

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.api.access import TableAccess
from opentalos.broker.tables.api.values import Table, Written
from opentalos.broker.tables.rows.row_work import Answer, Outcome
from opentalos.catalog.access.authorize import permissions_of
from opentalos.model.datum import Columns
from opentalos.model.errors import (
    NotFound,
    PartitionNotServing,
    RequestError,
    StoreUnavailable,
    TalosError,
)
from opentalos.model.identity import Principal, TableRight
from opentalos.model.mutation import Mutation, Operation
from opentalos.model.table import TableState
from opentalos.sds.mutation import check, split_record
from opentalos.sds.quota_units import of_mutation

# Called once, later. None: not done; the caller has to use ``TableService.write``.
PutAnswer = Callable[[Written | TalosError | None], None]
_WRITE = int(TableRight.WRITE)
_NEEDS_ROUTING = (NotFound, PartitionNotServing, StoreUnavailable)


class OwnShards(Protocol):
    """The shards of this server.

    ``offer`` queues a mutation whose row key is ``key``. False: nothing was done, since its shard
    is not open here or accepts nothing, or ``admit`` returned False.
    """

    def offer(
        self,
        table: Table,
        keyed: tuple[bytes, Mutation],
        admit: Callable[[], bool],
        answer: Answer,
    ) -> bool: ...


class PutFastPath:
    """Decides like ``TableService.write``, but never waits and gives no reason for a rejection."""

    def __init__(self, context: BrokerContext, access: TableAccess, shards: OwnShards) -> None:
        self._limits, self._access, self._shards = context.config.sds, access, shards

    def put(self, caller: Principal, name: str, record: Columns, answer: PutAnswer) -> bool:
        """Queue a put without a condition. False: nothing was done; use ``TableService.write``."""
        access = self._access
        table = access.tables.find(caller, name)
        if table is None or table.state is not TableState.ENABLED:
            return False
        if not permissions_of(caller, table) & _WRITE:
            return False
        key, columns = split_record(table.schema, record)
        mutation = Mutation(Operation.PUT, key, columns)
        try:
            keyed = check(table.schema, mutation, self._limits), mutation
        except RequestError:
            return False
        units = of_mutation(table.schema, Operation.PUT)
        return self._shards.offer(
            table,
            keyed,
            lambda: access.rates.admit_now(table, units.reads, units.writes),
            lambda outcome: answer(_written(outcome)),
        )


def _written(outcome: Outcome) -> Written | TalosError | None:
    if isinstance(outcome, TalosError):
        return None if isinstance(outcome, _NEEDS_ROUTING) else outcome
    return Written(outcome.success, outcome.amounts)
