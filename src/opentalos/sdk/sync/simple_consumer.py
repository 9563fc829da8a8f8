"""Reads by offset without a consumer group, for synchronous code."""

from opentalos.sdk import aio
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.sync.blocking import ClientObject, blocking
from opentalos.sdk.sync.client import Client


class SimpleConsumer(ClientObject[aio.SimpleConsumer]):
    """Reads the partitions of a topic from any position, without a consumer group.

    It keeps no position: continue with the offset after that of the last record. Any thread may
    use it, also in a forked child.

    Args: client: shared with other objects, or the configuration of a client of its own; topic:
    ``name`` or ``organisation/name``.
    """

    def __init__(self, client: Client | ClientConfig, topic: str) -> None:
        super().__init__(client, lambda client: aio.SimpleConsumer(client, topic))

    fetch = blocking(aio.SimpleConsumer.fetch)
    fetch_arrow = blocking(aio.SimpleConsumer.fetch_arrow)
    read_range = blocking(aio.SimpleConsumer.read_range)
    read_polars = blocking(aio.SimpleConsumer.read_polars)
    offset_of = blocking(aio.SimpleConsumer.offset_of)
    offsets = blocking(aio.SimpleConsumer.offsets)
