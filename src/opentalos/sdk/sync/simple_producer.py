"""Puts that return once the messages are stored, for synchronous code."""

from typing import Literal

from opentalos.sdk import aio
from opentalos.sdk.aio.producer.simple_producer import COMPRESSION_DEFAULT
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.values import Compression
from opentalos.sdk.sync.blocking import ClientObject, blocking
from opentalos.sdk.sync.client import Client


class SimpleProducer(ClientObject[aio.SimpleProducer]):
    """Stores messages synchronously: when ``put`` returns, they are durable.

    Nothing is buffered. For many small messages ``TalosProducer`` is faster. An OpenTalos server
    stores the messages of a put once (idempotent puts): a put whose reply is lost is repeated until
    the deadline of the client. Any thread may use it, also in a forked child.

    Args: client: shared with other objects, or the configuration of a client of its own; topic:
    ``name`` or ``organisation/name``; partition: for puts that name none; None: round-robin;
    idempotent: True: NotSupported if the server lacks idempotent puts; "auto": idempotent if it has
    them; False: never, and a put whose reply is lost is not repeated.
    """

    def __init__(
        self,
        client: Client | ClientConfig,
        topic: str,
        partition: int | None = None,
        *,
        compression: Compression = COMPRESSION_DEFAULT,
        idempotent: Literal["auto"] | bool = "auto",
    ) -> None:
        super().__init__(
            client,
            lambda client: aio.SimpleProducer(
                client, topic, partition, compression=compression, idempotent=idempotent
            ),
        )

    put = blocking(aio.SimpleProducer.put)
