"""The Python client of Talos, typed, synchronous here and for asyncio in ``opentalos.sdk.aio``.

Over wire and model; nothing of the server side. This list is the public interface.
"""

from opentalos.sdk.client import Client
from opentalos.sdk.config import ClientConfig, TlsSettings
from opentalos.sdk.values import Message, Record, Start, TopicRef

__all__ = [
    "Client",
    "ClientConfig",
    "Message",
    "Record",
    "Start",
    "TlsSettings",
    "TopicRef",
]
