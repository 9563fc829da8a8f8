"""The Python client of Talos, typed, synchronous here and for asyncio in ``opentalos.sdk.aio``.

Over wire and model; nothing of the server side. This list is the public interface.
"""

from opentalos.sdk.admin import TalosAdmin
from opentalos.sdk.client import Client
from opentalos.sdk.config import ClientConfig, TlsSettings
from opentalos.sdk.consumer import TalosConsumer
from opentalos.sdk.consumer_settings import Callbacks, ConsumerSettings, Expired
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
from opentalos.sdk.producer import TalosProducer
from opentalos.sdk.producer_settings import Outcome, ProducerSettings
from opentalos.sdk.simple_consumer import SimpleConsumer
from opentalos.sdk.simple_producer import SimpleProducer
from opentalos.sdk.values import Compression, Message, Permission, Record, Start, TopicRef

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
