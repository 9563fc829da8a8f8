"""AdminService: tables, as their owners make and change them."""

from dataclasses import replace
from functools import partial
from typing import Final

from opentalos.broker.long_work import SHORT_ITEMS
from opentalos.broker.tables.api.values import Table
from opentalos.gateway.sds_http.handlers.context import Handler, Services
from opentalos.gateway.sds_http.handlers.values import TABLE, Arguments, needed
from opentalos.model.errors import NotSupported
from opentalos.model.identity import Principal
from opentalos.model.table import TableSpec
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import columns_from, columns_to
from opentalos.wire.sds.table_schema import parts_of, spec_from, spec_to


async def create_table(
    services: Services, caller: Principal, arguments: Arguments
) -> sds.TableInfo:
    """A new table, enabled."""
    name, spec = needed(arguments[0], TABLE), await _spec(services, caller, arguments[1])
    return _info(caller, await services.admin.create(caller, name, spec))


async def alter_table(services: Services, caller: Principal, arguments: Arguments) -> None:
    """The whole of what its owner decides about a table, replaced.

    What clients may leave out unintentionally does not change: the number of shards, since
    ``preSplits`` has an effect only at creation and is 1 in a specification that was written from
    scratch (any other different number is rejected); and the rights of teams, since older clients
    do not know them and lose them between describeTable and alterTable.
    """
    name, spec = needed(arguments[0], TABLE), await _spec(services, caller, arguments[1])
    unsaid_rights = arguments[1].metadata is None or arguments[1].metadata.acl is None
    if spec.schema.shards == 1 or unsaid_rights:
        table = await services.admin.describe(caller, name, fresh=True)
        if spec.schema.shards == 1:
            spec = replace(spec, schema=replace(spec.schema, shards=table.schema.shards))
        if unsaid_rights:
            spec = replace(spec, team_acl=table.team_acl)
    await services.admin.alter(caller, name, spec, arguments[1].expectedVersion)


async def drop_table(services: Services, caller: Principal, arguments: Arguments) -> None:
    """Drop a table and its records, whether it is disabled or not."""
    await services.admin.drop(caller, needed(arguments[0], TABLE))


async def enable_table(services: Services, caller: Principal, arguments: Arguments) -> None:
    """Reads and writes are served again."""
    await services.admin.enable(caller, needed(arguments[0], TABLE))


async def disable_table(services: Services, caller: Principal, arguments: Arguments) -> None:
    """Reads and writes are refused."""
    await services.admin.disable(caller, needed(arguments[0], TABLE))


async def describe_table(
    services: Services, caller: Principal, arguments: Arguments
) -> sds.TableSpec:
    """Schema and metadata."""
    return _described(await services.admin.describe(caller, needed(arguments[0], TABLE)))


async def find_all_tables(
    services: Services, caller: Principal, _: Arguments
) -> list[sds.TableInfo]:
    """Tables that the caller owns or was granted."""
    found = await services.admin.list(caller)
    info = partial(_info, caller)
    return await services.work.each(caller.id, found, info, weight=_parts)


async def get_table_status(
    services: Services, caller: Principal, arguments: Arguments
) -> sds.TableStatus:
    """State and size; the size is an estimate."""
    name = needed(arguments[0], TABLE)
    status = _status(await services.admin.describe(caller, name))
    size = await services.admin.size(caller, name)
    status.size, status.rowCount = size.bytes, size.rows
    return status


async def get_table_state(
    services: Services, caller: Principal, arguments: Arguments
) -> sds.TableState:
    """The table's state."""
    return sds.TableState(await services.admin.state(caller, needed(arguments[0], TABLE)))


async def get_table_size(services: Services, caller: Principal, arguments: Arguments) -> int:
    """Bytes, estimated."""
    return (await services.admin.size(caller, needed(arguments[0], TABLE))).bytes


async def get_table_splits(
    services: Services, caller: Principal, arguments: Arguments
) -> list[sds.TableSplit]:
    """Ranges that can be scanned in parallel."""
    name, start, stop = arguments
    name = needed(name, TABLE)
    found = await services.admin.splits(caller, name, columns_from(start), columns_from(stop))
    return [
        sds.TableSplit(startKey=columns_to(split.start), stopKey=columns_to(split.stop))
        for split in found
    ]


async def get_latest_stream_checkpoint(
    services: Services, caller: Principal, arguments: Arguments
) -> sds.StreamCheckpoint:
    """A time up to which a stream is complete, with its topic's next offsets at that time."""
    table = await services.admin.describe(caller, needed(arguments[0], TABLE))
    topic = needed(arguments[1], "a topic name")
    mark = await services.shards.mark(table, topic)
    return sds.StreamCheckpoint(
        timestamp=mark.timestamp_ms,
        topicName=topic,
        enabling=table.streams[topic].id,
        partitionStates=[
            sds.TopicPartitionState(partitionId=partition, offset=offset)
            for partition, offset in sorted(mark.offsets.items())
        ],
    )


async def get_develop_id(_: Services, caller: Principal, __: Arguments) -> str:
    """Owner of the tables that the caller makes."""
    return caller.owner_id


async def put_client_metrics(_: Services, __: Principal, ___: Arguments) -> None:
    """Accepted and ignored: the server measures by itself."""


async def _spec(services: Services, caller: Principal, struct: sds.TableSpec | None) -> TableSpec:
    """A table's specification. Raises: ValidationFailed; NotSupported: a part is not served."""
    given = needed(struct, "a table specification")
    schema, metadata = given.schema or sds.TableSchema(), given.metadata or sds.TableMetadata()
    asked = {
        "global secondary indexes": schema.globalSecondaryIndexes,
        "transactional tables": schema.enableTransaction,
        "a stream without a topic (TableMetadata.stream)": metadata.stream
        and metadata.stream.enableStream,
        "snapshots (enableSysSnapshot)": metadata.enableSysSnapshot,
        "access by entity group (enableEgAcl)": metadata.enableEgAcl,
        "point-in-time recovery": metadata.pitr and metadata.pitr.enablePointInTimeRecovery,
        "recovery of dropped tables (softDeletedTtl)": (metadata.softDeletedTtl or 0) > 0,
        "cold standby": metadata.coldStandBy and metadata.coldStandBy.enableColdStandBy,
    }
    refused = [what for what, wanted in asked.items() if wanted]
    if refused:
        raise NotSupported(f"not supported: {', '.join(refused)}")
    if parts_of(given) <= SHORT_ITEMS:
        return spec_from(given)
    async with services.work.turn(caller.id, patient=True) as turn:
        return await turn.in_pieces(partial(spec_from, given))


def _info(caller: Principal, table: Table) -> sds.TableInfo:
    mine = table.owner == caller.owner_id
    name = table.name if mine else f"{table.owner}/{table.name}"
    return sds.TableInfo(name=name, spec=_described(table), status=_status(table))


def _parts(table: Table) -> int:
    """How many parts its description has, about."""
    schema = table.schema
    return len(schema.attributes) + len(table.app_acl) + len(table.team_acl) + 10


def _described(table: Table) -> sds.TableSpec:
    struct = spec_to(table.spec)
    assert struct.metadata is not None
    struct.metadata.tableId, struct.metadata.developerId = table.uuid, table.owner
    return struct


def _status(table: Table) -> sds.TableStatus:
    return sds.TableStatus(
        state=sds.TableState(table.state),
        createTime=table.created_ms,
        alterTime=table.altered_ms,
    )


HANDLERS: Final[dict[str, Handler]] = {
    "createTable": create_table,
    "alterTable": alter_table,
    "dropTable": drop_table,
    "enableTable": enable_table,
    "disableTable": disable_table,
    "describeTable": describe_table,
    "findAllTables": find_all_tables,
    "getTableStatus": get_table_status,
    "getTableState": get_table_state,
    "getTableSize": get_table_size,
    "getTableSplits": get_table_splits,
    "getLatestStreamCheckpoint": get_latest_stream_checkpoint,
    "getDevelopId": get_develop_id,
    "putClientMetrics": put_client_metrics,
}
