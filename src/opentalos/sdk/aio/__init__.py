"""The asyncio client. Errors, values and configuration are those of ``opentalos.sdk``."""

from opentalos.sdk.aio.admin.talos_admin import TalosAdmin
from opentalos.sdk.aio.connection.client import Client
from opentalos.sdk.aio.consumer.simple_consumer import SimpleConsumer
from opentalos.sdk.aio.consumer.talos_consumer import TalosConsumer
from opentalos.sdk.aio.producer.simple_producer import SimpleProducer
from opentalos.sdk.aio.producer.talos_producer import TalosProducer

__all__ = [
    "Client",
    "SimpleConsumer",
    "SimpleProducer",
    "TalosAdmin",
    "TalosConsumer",
    "TalosProducer",
]
