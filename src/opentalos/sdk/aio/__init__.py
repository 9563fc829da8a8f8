"""The asyncio client. Errors, values and configuration are those of ``opentalos.sdk``."""

from opentalos.sdk.aio.admin import TalosAdmin
from opentalos.sdk.aio.client import Client
from opentalos.sdk.aio.consumer import TalosConsumer
from opentalos.sdk.aio.producer import TalosProducer
from opentalos.sdk.aio.simple_consumer import SimpleConsumer
from opentalos.sdk.aio.simple_producer import SimpleProducer

__all__ = [
    "Client",
    "SimpleConsumer",
    "SimpleProducer",
    "TalosAdmin",
    "TalosConsumer",
    "TalosProducer",
]
