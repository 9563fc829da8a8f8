"""The change stream of a structured table: its changes, or a replica of the table built from them.

The classes here are for synchronous code; those for asyncio are in ``opentalos.sdk.aio.stream``.
Decoding and ``Replica`` do no I/O and serve both. This list is the public interface.
"""

from opentalos.model.change import Change, ChangeKind, StreamView
from opentalos.sdk.core.table.stream_decode import StreamChange, StreamDecoder
from opentalos.sdk.core.table.stream_state import Replica, ReplicaCounters, StoredState, StreamMark
from opentalos.sdk.errors import ChangeContradicts, ChangeMissing
from opentalos.sdk.sync.stream import ChangeReader, TableFollower

__all__ = [
    "Change",
    "ChangeContradicts",
    "ChangeKind",
    "ChangeMissing",
    "ChangeReader",
    "Replica",
    "ReplicaCounters",
    "StoredState",
    "StreamChange",
    "StreamDecoder",
    "StreamMark",
    "StreamView",
    "TableFollower",
]
