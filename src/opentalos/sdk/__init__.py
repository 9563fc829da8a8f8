"""The Python SDK: typed, for synchronous code here, for asyncio in ``opentalos.sdk.aio``.

It imports ``wire`` and ``model`` and nothing of the server. This list is the public interface, with
those of ``opentalos.sdk.tables``, ``opentalos.sdk.stream``, ``opentalos.sdk.errors`` and
``opentalos.sdk.arrow``.
"""

from opentalos.sdk.core.config import ClientConfig, TlsSettings
from opentalos.sdk.core.consumer.settings import (
    Callbacks,
    ConsumerCounters,
    ConsumerSettings,
    Expired,
)
from opentalos.sdk.core.producer.settings import (
    OnError,
    OnRowsError,
    OnRowsSuccess,
    OnSuccess,
    Outcome,
    ProducerSettings,
    Undelivered,
)
from opentalos.sdk.core.values import (
    Compression,
    DamagedRange,
    Grantee,
    GrantType,
    Message,
    OffsetRange,
    Partitioning,
    PartitionLag,
    PartitionQuota,
    PartitionState,
    Permission,
    Position,
    PutReply,
    Quota,
    Record,
    Start,
    Stored,
    TopicDescription,
    TopicInfo,
    TopicRef,
    TopicStatus,
    UserQuota,
)
from opentalos.sdk.errors import (
    BufferFull,
    ClientClosed,
    ConnectFailed,
    CorruptLog,
    DeliveryFailed,
    LeaseNotHeld,
    OutcomeUnknown,
    PositionExpired,
    RequestError,
    TalosError,
    Unavailable,
)
from opentalos.sdk.sync.admin import TalosAdmin
from opentalos.sdk.sync.client import Client
from opentalos.sdk.sync.simple_consumer import SimpleConsumer
from opentalos.sdk.sync.simple_producer import SimpleProducer
from opentalos.sdk.sync.talos_consumer import TalosConsumer
from opentalos.sdk.sync.talos_producer import TalosProducer

__all__ = [
    "BufferFull",
    "Callbacks",
    "Client",
    "ClientClosed",
    "ClientConfig",
    "Compression",
    "ConnectFailed",
    "ConsumerCounters",
    "ConsumerSettings",
    "CorruptLog",
    "DamagedRange",
    "DeliveryFailed",
    "Expired",
    "GrantType",
    "Grantee",
    "LeaseNotHeld",
    "Message",
    "OffsetRange",
    "OnError",
    "OnRowsError",
    "OnRowsSuccess",
    "OnSuccess",
    "Outcome",
    "OutcomeUnknown",
    "PartitionLag",
    "PartitionQuota",
    "PartitionState",
    "Partitioning",
    "Permission",
    "Position",
    "PositionExpired",
    "ProducerSettings",
    "PutReply",
    "Quota",
    "Record",
    "RequestError",
    "SimpleConsumer",
    "SimpleProducer",
    "Start",
    "Stored",
    "TalosAdmin",
    "TalosConsumer",
    "TalosError",
    "TalosProducer",
    "TlsSettings",
    "TopicDescription",
    "TopicInfo",
    "TopicRef",
    "TopicStatus",
    "Unavailable",
    "Undelivered",
    "UserQuota",
]
