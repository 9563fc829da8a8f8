"""What a handler of SDS calls is given, and what it gives back."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from opentalos.broker.long_work import LongWork
from opentalos.broker.tables.api.admin import TableAdminService
from opentalos.broker.tables.api.put_fast_path import PutFastPath
from opentalos.broker.tables.api.service import TableService
from opentalos.broker.tables.shard.shards import TableShards
from opentalos.model.identity import Principal


class Services(NamedTuple):
    """The broker's use cases of tables."""

    tables: TableService
    admin: TableAdminService
    shards: TableShards
    put_fast_path: PutFastPath
    work: LongWork


# (services, caller, arguments; a missing one is None) to the result struct, None for void.
# Errors are raised as leaves of model.errors; the gateway turns them into replies.
Handler = Callable[[Services, Principal, tuple[Any, ...]], Awaitable[Any]]
Handlers = Mapping[str, Mapping[str, Handler]]  # service name, then RPC name
