"""A table with a quota as its users meet it: puts until it is full, then rows removed."""

from typing import Any

from load_table import Arguments, admin_client, datums, run, say, spec, table_client
from sds.errors.ttypes import ServiceException
from sds.table.ttypes import (
    BatchOp,
    BatchRequest,
    BatchRequestItem,
    PutRequest,
    RemoveRequest,
    Request,
    TableMetadata,
    TableQuota,
)

NAME = "full"
VALUE = "x" * 500


def put(number: int, token: str = VALUE) -> Any:
    return PutRequest(NAME, datums({"grp": "g", "id": number, "token": token}))


def code_of(call: Any, *arguments: Any) -> int:
    """The code that a call is refused with; 0: it is not."""
    try:
        call(*arguments)
    except ServiceException as error:
        return int(error.errorCode)
    return 0


def program(arguments: Arguments) -> None:
    admin, tables = admin_client(arguments), table_client(arguments)
    wanted = spec(arguments)
    wanted.metadata = TableMetadata(quota=TableQuota(size=0))
    say(none=code_of(admin.createTable, NAME, wanted))
    wanted.metadata = TableMetadata(quota=TableQuota(size=arguments["quota"]))
    admin.createTable(NAME, wanted)
    say(told=admin.describeTable(NAME).metadata.quota.size)
    codes = [code_of(tables.put, put(number)) for number in range(4)]
    say(puts=codes)
    items = [put(0, "y" * 500), put(7), put(1, "short")]
    done = tables.batch(
        BatchRequest([BatchRequestItem(BatchOp.PUT, Request(putRequest=item)) for item in items])
    ).items
    say(batch=[item.serviceException.errorCode if item.serviceException else 0 for item in done])
    lower = admin.describeTable(NAME)
    lower.metadata.quota = TableQuota(size=100)
    say(lower=code_of(admin.alterTable, NAME, lower))
    tables.remove(RemoveRequest(NAME, datums({"grp": "g", "id": 0})))
    say(again=code_of(tables.put, put(7)))


run(program)
