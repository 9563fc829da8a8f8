"""The calls between servers of a cluster: the one list of names, types and rules.

``client.py`` makes the calls and ``dispatch.py`` answers them, both by this list. The rules for
changes are in ``docs/adr/0016-peer-protocol.md``.
"""

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from opentalos.broker.peer_rpc import messages
from opentalos.broker.peer_rpc.messages import Empty

PROTOCOL_VERSION: Final = 2  # raised when a call or a field is added that a caller must know of

Request = TypeVar("Request")
Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerCall(Generic[Request, Reply]):
    """One call. ``idempotent``: a repeat changes nothing, so an unanswered call is sent again.

    ``since``: the version of the protocol that added the call; 0: before it had versions.
    """

    name: str
    request: type[Request]
    reply: type[Reply]
    idempotent: bool
    deadline_s: float  # for the reply, repeats included
    since: int = 0


# Clients time out after 5 s and must hear of a server that does not answer before that.
PARTITIONS: Final = PeerCall(
    name="partitions",
    request=messages.PartitionsRequest,
    reply=messages.PartitionsReply,
    idempotent=True,
    deadline_s=3.0,
)
MESSAGES: Final = PeerCall(
    name="messages",
    request=messages.MessagesRequest,
    reply=messages.MessagesReply,
    idempotent=True,
    deadline_s=5.0,
)
SYSTEM_PUT: Final = PeerCall(
    name="system-put",
    request=messages.SystemPutRequest,
    reply=Empty,
    idempotent=False,
    deadline_s=10.0,
)
# The block has a producer's stamp, but a repeat must say that it is one: the publisher repeats.
STREAM_PUT: Final = PeerCall(
    name="stream-put",
    request=messages.StreamPutRequest,
    reply=messages.StreamPutReply,
    idempotent=False,
    deadline_s=10.0,
)
# The write of a group of mutations may take most of the time.
TABLE_MUTATIONS: Final = PeerCall(
    name="table-mutations",
    request=messages.MutationsRequest,
    reply=messages.MutationsReply,
    idempotent=False,
    deadline_s=15.0,
)
TABLE_MARK: Final = PeerCall(
    name="table-mark",
    request=messages.MarkRequest,
    reply=messages.MarkReply,
    idempotent=True,
    deadline_s=15.0,
)
TABLE_CHANGED: Final = PeerCall(
    name="table-changed",
    request=messages.TableChangedRequest,
    reply=Empty,
    idempotent=True,
    deadline_s=15.0,
)
STATUS: Final = PeerCall(
    name="status",
    request=Empty,
    reply=messages.StatusReply,
    idempotent=True,
    deadline_s=2.0,
)
# Series are for people who wait for a page.
SERIES: Final = PeerCall(
    name="series",
    request=messages.SeriesQuestion,
    reply=messages.SeriesAnswer,
    idempotent=True,
    deadline_s=2.0,
    since=2,
)
HEALTH: Final = PeerCall(
    name="health",
    request=Empty,
    reply=messages.HealthReply,
    idempotent=True,
    deadline_s=2.0,
    since=2,
)

CALLS: Final[tuple[PeerCall[Any, Any], ...]] = (
    PARTITIONS,
    MESSAGES,
    SYSTEM_PUT,
    STREAM_PUT,
    TABLE_MUTATIONS,
    TABLE_MARK,
    TABLE_CHANGED,
    STATUS,
    SERIES,
    HEALTH,
)
