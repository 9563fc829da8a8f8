"""Structured tables: rows and administration, for synchronous code.

The same classes for asyncio are in ``opentalos.sdk.aio.tables``. This list is the public
interface.
"""

from opentalos.model.change import StreamView
from opentalos.model.datum import DataType, Datum
from opentalos.model.table import (
    AppRight,
    IndexMode,
    KeyPart,
    LocalIndex,
    StreamSpec,
    TableSchema,
    TableSpec,
    TableState,
    TeamRight,
    WhenFull,
)
from opentalos.sdk.core.table.calls import (
    Get,
    Increment,
    Put,
    Remove,
    RowExists,
    TableInfo,
    TableRange,
    Where,
)
from opentalos.sdk.core.table.stream_state import StreamMark
from opentalos.sdk.sync.tables import TableAdmin, TalosTable

__all__ = [
    "AppRight",
    "DataType",
    "Datum",
    "Get",
    "Increment",
    "IndexMode",
    "KeyPart",
    "LocalIndex",
    "Put",
    "Remove",
    "RowExists",
    "StreamMark",
    "StreamSpec",
    "StreamView",
    "TableAdmin",
    "TableInfo",
    "TableRange",
    "TableSchema",
    "TableSpec",
    "TableState",
    "TalosTable",
    "TeamRight",
    "WhenFull",
    "Where",
]
