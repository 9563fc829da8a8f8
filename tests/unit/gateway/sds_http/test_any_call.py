"""Whatever a call asks of tables, it is answered with a result or a code, over a real broker."""

import asyncio
from types import SimpleNamespace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.broker.support import world
from tests.unit.broker.tables.support import ALICE, HASHED, make
from tests.unit.gateway.sds_http.support import BINARY, DRAIN_S, Connection
from tests.unit.wire.sds.test_datum import DATUMS

from opentalos.gateway.http.exchange import Exchange
from opentalos.gateway.sds_http.gateway import SdsGateway
from opentalos.gateway.sds_http.handlers import Services
from opentalos.wire._generated import sds
from opentalos.wire.sds.datum import to_struct
from opentalos.wire.thrift import decode_reply, encode_call

CALLS = 12  # of one example, on one table
NAMES = st.sampled_from(["user", "at", "city", "count", "odd", ""])
TABLES = st.sampled_from(
    ["people", "people", "people", "alice/people", "nobody", "a/b/c", "", None]
)
NUMBERS = st.sampled_from([-(1 << 31), -1, 0, 1, 2, 5, 99, (1 << 31) - 1])
KEY = st.fixed_dictionaries(
    {
        "user": st.sampled_from(["ann", "bob"]).map(
            lambda name: sds.Datum(type=sds.DataType.STRING, value=sds.Value(stringValue=name))
        ),
        "at": st.integers(0, 2).map(
            lambda at: sds.Datum(type=sds.DataType.INT64, value=sds.Value(int64Value=at))
        ),
    }
)
ODD = st.builds(
    sds.Datum,
    type=NUMBERS | st.none(),
    value=st.none() | st.builds(sds.Value, int8Value=st.none() | st.just(1), nullValue=st.none()),
)
COLUMNS = (
    KEY
    | st.none()
    | st.dictionaries(NAMES, DATUMS.map(to_struct) | ODD, max_size=4)
    | st.tuples(KEY, st.dictionaries(NAMES, DATUMS.map(to_struct), max_size=2)).map(
        lambda parts: parts[0] | parts[1]
    )
)
SOME = st.none() | st.lists(NAMES, max_size=3)
CONDITIONS = st.none() | st.builds(
    sds.SimpleCondition,
    operator=st.none() | NUMBERS,
    field=st.none() | NAMES,
    value=st.none() | ODD | DATUMS.map(to_struct),
    rowExist=st.none() | st.booleans(),
)
GETS = st.builds(sds.GetRequest, tableName=TABLES, keys=COLUMNS, attributes=SOME)
PUTS = st.builds(sds.PutRequest, tableName=TABLES, record=COLUMNS, condition=CONDITIONS)
INCREMENTS = st.builds(sds.IncrementRequest, tableName=TABLES, keys=COLUMNS, amounts=COLUMNS)
REMOVES = st.builds(
    sds.RemoveRequest, tableName=TABLES, keys=COLUMNS, attributes=SOME, condition=CONDITIONS
)
REQUESTS = st.builds(
    sds.Request,
    getRequest=st.none() | GETS,
    putRequest=st.none() | PUTS,
    incrementRequest=st.none() | INCREMENTS,
    removeRequest=st.none() | REMOVES,
)
ACTIONS = st.builds(sds.ScanAction, action=st.none() | NUMBERS, request=st.none() | REQUESTS)
SCANS = st.builds(
    sds.ScanRequest,
    tableName=TABLES,
    indexName=st.sampled_from([None, "", "by_city", "odd"]),
    startKey=COLUMNS,
    stopKey=COLUMNS,
    attributes=SOME,
    condition=st.none() | st.sampled_from(["", "count > 1", "count >", "odd = 1", "city IS NULL"]),
    limit=NUMBERS,
    reverse=st.booleans(),
    action=st.none() | ACTIONS,
)
ITEMS = st.builds(sds.BatchRequestItem, action=st.none() | NUMBERS, request=st.none() | REQUESTS)
BATCHES = st.builds(sds.BatchRequest, items=st.none() | st.lists(ITEMS, max_size=4))
KEY_PARTS = st.none() | st.lists(
    st.builds(sds.KeySpec, attribute=st.none() | NAMES, asc=st.booleans()), max_size=3
)
INDEXES = st.builds(
    sds.LocalSecondaryIndexSpec,
    indexSchema=KEY_PARTS,
    projections=SOME,
    consistencyMode=NUMBERS,
    unique=st.booleans(),
)
SCHEMAS = st.builds(
    sds.TableSchema,
    entityGroup=st.none() | st.builds(sds.EntityGroupSpec, attributes=KEY_PARTS),
    primaryIndex=KEY_PARTS,
    secondaryIndexes=st.none() | st.dictionaries(NAMES, INDEXES, max_size=2),
    attributes=st.none() | st.dictionaries(NAMES, NUMBERS, max_size=4),
    ttl=NUMBERS,
    preSplits=NUMBERS,
    streams=st.none() | st.dictionaries(NAMES, st.builds(sds.StreamSpec), max_size=2),
)
SPECS = st.none() | st.builds(sds.TableSpec, schema=st.none() | SCHEMAS)
ANY = st.one_of(
    st.tuples(st.just("get"), GETS),
    st.tuples(st.just("put"), PUTS),
    st.tuples(st.just("increment"), INCREMENTS),
    st.tuples(st.just("remove"), REMOVES),
    st.tuples(st.just("scan"), SCANS),
    st.tuples(st.sampled_from(["batch", "partialAllowedBatch", "batchCheckAndMutate"]), BATCHES),
    st.tuples(st.sampled_from(["createTable", "alterTable"]), TABLES, SPECS),
    st.tuples(st.just("getTableSplits"), TABLES, COLUMNS, COLUMNS),
    st.tuples(st.sampled_from(["getTableStatus", "describeTable", "enableTable"]), TABLES),
    st.tuples(st.just("getLatestStreamCheckpoint"), TABLES, NAMES),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(ANY, min_size=1, max_size=CALLS))
def test_every_call_gets_a_result_or_a_code(calls: list[tuple[Any, ...]]) -> None:
    asyncio.run(answered(calls))


async def answered(calls: list[tuple[Any, ...]]) -> None:
    async with world() as bed:
        broker = bed.broker
        await make(broker, HASHED)
        services = Services(
            broker.tables, broker.table_admin, broker.shards, broker.put_fast_path, broker.work
        )
        authenticator: Any = SimpleNamespace(caller=lambda _: ALICE)
        gateway = SdsGateway(services, authenticator)
        for rpc, *arguments in calls:
            service = (
                "TableService" if rpc in sds.SERVICES["TableService"].methods else "AdminService"
            )
            spec = sds.SERVICES[service]
            method, path = spec.methods[rpc], spec.path.encode()
            connection = Connection()
            stand_in: Any = connection
            headers = {b"content-type": BINARY.value.encode()}
            exchange = Exchange(stand_in, b"POST", path, headers)
            exchange.body = encode_call(BINARY, method, 7, *arguments)
            gateway.routes()[path](exchange)
            await gateway.drain(DRAIN_S)
            async with asyncio.timeout(DRAIN_S):
                while not connection.replies:  # noqa: ASYNC110 # a fast put has no task to drain
                    await asyncio.sleep(0)
            ((status, _, body),) = connection.replies
            assert status == 200, (rpc, arguments, body)
            decode_reply(BINARY, method, body)
