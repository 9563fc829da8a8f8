"""What the load programs of tables share: the client, the table, its rows, and outcomes.

They run in ``.sds-venv`` under the third-party SDS client, which owns the import names ``sds``,
``rpc`` and ``thrift``. Strings are ASCII: the client counts characters where bytes are meant.
"""

import json
import os
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from sds.auth.ttypes import Credential, UserType
from sds.client.clientfactory import ClientFactory
from sds.client.datumutil import datum, values
from sds.client.exceptions import SdsTransportException
from sds.errors.ttypes import ErrorCode, ServiceException
from sds.table.ttypes import (
    DataType,
    EntityGroupSpec,
    KeySpec,
    LocalSecondaryIndexSpec,
    SecondaryIndexConsistencyMode,
    StreamSpec,
    StreamViewType,
    TableMetadata,
    TableSchema,
    TableSpec,
)

Arguments = dict[str, Any]
Plain = dict[str, Any]  # column to a value without its type

TYPES = {
    "grp": DataType.STRING,
    "id": DataType.INT64,
    "token": DataType.STRING,  # names the put that wrote it
    "flag": DataType.STRING,  # in an index that is kept at each write
    "count": DataType.INT64,
}
KEYS = ("grp", "id")
INDEX = "by_flag"
TIMEOUT_S = 30.0
# Refused before anything was changed; every other error leaves the outcome open.
NOT_DONE = {
    ErrorCode.SERVICE_UNAVAILABLE,
    ErrorCode.ACCESS_DENIED,
    ErrorCode.VALIDATION_FAILED,
    ErrorCode.SIZE_EXCEED,
    ErrorCode.QUOTA_EXCEED,
    ErrorCode.THROUGHPUT_EXCEED,
    ErrorCode.RESOURCE_NOT_FOUND,
    ErrorCode.RESOURCE_UNAVAILABLE,
}
NOT_DONE_STATUS = {400, 401, 412, 413}


def factory(arguments: Arguments) -> Any:
    """The client's own factory. It gives its time for calls, in ms, to a socket, in seconds."""
    socket.setdefaulttimeout(TIMEOUT_S)  # it sets this for each call, and threads share it
    credential = Credential(UserType.DEV_XIAOMI, arguments["key_id"], arguments["secret"])
    return ClientFactory(credential)


def table_client(arguments: Arguments) -> Any:
    return factory(arguments).new_table_client(f"{arguments['url']}/v1/api/table", TIMEOUT_S)


def admin_client(arguments: Arguments) -> Any:
    return factory(arguments).new_admin_client(f"{arguments['url']}/v1/api/admin", TIMEOUT_S)


def datums(columns: Plain) -> dict[str, Any]:
    """Columns as the client sends them."""
    return {name: datum(value, TYPES[name]) for name, value in columns.items()}


def plain(columns: Any) -> Plain:
    """Columns as histories have them."""
    return dict(values(columns or {}))


def key_of(row: Plain) -> str:
    """A row's name in histories."""
    return f"{row['grp']}/{row['id']}"


def spec(arguments: Arguments) -> Any:
    """A hashed table; ``streams``: topic to the name of a view."""
    streams = {
        topic: StreamSpec(True, getattr(StreamViewType, view), [])
        for topic, view in arguments["streams"].items()
    }
    index = LocalSecondaryIndexSpec(
        [KeySpec("flag", True)], ["token"], SecondaryIndexConsistencyMode.EAGER, False
    )
    schema = TableSchema(
        entityGroup=EntityGroupSpec([KeySpec("grp", True)], True),
        primaryIndex=[KeySpec("id", False)],
        secondaryIndexes={INDEX: index} if arguments.get("index", True) else None,
        attributes=TYPES,
        preSplits=arguments["shards"],
        streams=streams,
    )
    return TableSpec(schema, TableMetadata())


def is_not_done(error: Exception) -> bool:
    """Whether it is certain that the call changed nothing."""
    if isinstance(error, ServiceException):
        return error.errorCode in NOT_DONE
    if isinstance(error, SdsTransportException):
        return error.httpStatusCode in NOT_DONE_STATUS
    return isinstance(error, ConnectionRefusedError)


def reason(error: Exception) -> str:
    """Why a call failed."""
    if isinstance(error, ServiceException):
        return f"{ErrorCode._VALUES_TO_NAMES[error.errorCode]}: {error.errorMessage}"[:200]
    return f"{type(error).__name__}: {error}"[:200]


def say(**told: Any) -> None:
    """One line of result."""
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def run(program: Callable[[Arguments], None]) -> NoReturn:
    """Run a program on its argument and leave at once, whatever threads there are."""
    try:
        program(json.loads(sys.argv[1]))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)
