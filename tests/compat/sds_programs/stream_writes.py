"""Changes of one row of a table with streams, made by the SDS client."""

from load_table import Arguments, admin_client, datums, run, say, spec, table_client
from sds.table.ttypes import (
    BatchOp,
    BatchRequest,
    BatchRequestItem,
    IncrementRequest,
    PutRequest,
    RemoveRequest,
    Request,
    SimpleCondition,
)

NAME = "streamed"


def program(arguments: Arguments) -> None:
    admin, tables = admin_client(arguments), table_client(arguments)
    admin.createTable(NAME, spec(arguments))
    keys = datums({"grp": "g", "id": 1})

    def put(columns: dict[str, object], condition: object = None) -> bool:
        request = PutRequest(NAME, {**keys, **datums(columns)}, condition)
        return bool(tables.put(request).success)

    put({"count": 5, "token": "a"})
    say(refused=put({"token": "never"}, SimpleCondition(rowExist=False)))
    tables.increment(IncrementRequest(NAME, keys, datums({"count": 3})))
    tables.remove(RemoveRequest(NAME, keys, ["token"]))
    item = Request(putRequest=PutRequest(NAME, {**keys, **datums({"flag": "f"})}))
    tables.batch(BatchRequest([BatchRequestItem(BatchOp.PUT, item)]))
    tables.remove(RemoveRequest(NAME, keys))
    say(streams=sorted(admin.describeTable(NAME).schema.streams))


run(program)
