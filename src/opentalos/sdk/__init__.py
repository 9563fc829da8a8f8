"""The Python client of Talos, typed, synchronous here and for asyncio in ``opentalos.sdk.aio``.

Over wire and model; nothing of the server side. This list is the public interface.
"""

from opentalos.sdk.core.config import ClientConfig, TlsSettings
from opentalos.sdk.core.consumer.settings import Callbacks, ConsumerSettings, Expired
from opentalos.sdk.core.producer.settings import Outcome, ProducerSettings
from opentalos.sdk.core.values import Compression, Message, Permission, Record, Start, TopicRef
from opentalos.sdk.errors import (
    BufferFull,
    ClientClosed,
    ConnectFailed,
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
    "ConsumerSettings",
    "Expired",
    "LeaseNotHeld",
    "Message",
    "Outcome",
    "OutcomeUnknown",
    "Permission",
    "PositionExpired",
    "ProducerSettings",
    "Record",
    "RequestError",
    "SimpleConsumer",
    "SimpleProducer",
    "Start",
    "TalosAdmin",
    "TalosConsumer",
    "TalosError",
    "TalosProducer",
    "TlsSettings",
    "TopicRef",
    "Unavailable",
]
