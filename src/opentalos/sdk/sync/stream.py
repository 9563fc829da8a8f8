"""Follows the stream of a structured table: its changes, or the table's state made of them.

For synchronous code here, for asyncio in ``opentalos.sdk.aio.stream``; decoding and ``Replica``
need neither. This list is the public interface.
"""

from collections.abc import Iterator, Mapping
from typing import Self

from opentalos.sdk.aio import stream as aio
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.consumer.settings import ConsumerSettings
from opentalos.sdk.core.table.stream_decode import StreamChange, StreamDecoder, published_name
from opentalos.sdk.core.table.stream_state import Replica
from opentalos.sdk.errors import ClientClosed
from opentalos.sdk.sync.client import Client, attach
from opentalos.sdk.sync.tables import TalosTable
from opentalos.sdk.sync.talos_consumer import TalosConsumer


class ChangeReader:
    """As ``opentalos.sdk.aio.stream.ChangeReader``: ``for change in reader``.

    Args: client: shared with other objects, or a configuration for a client of its own; topic: as
    the table's schema names it, or OWNER/TOPIC if the table is OWNER/TABLE.
    """

    def __init__(
        self,
        client: Client | ClientConfig,
        table: str,
        topic: str,
        group: str,
        settings: ConsumerSettings | None = None,
    ) -> None:
        self._client, self._owned = attach(client)
        self._table = TalosTable(self._client, table)
        self._topic = topic
        self.consumer = TalosConsumer(self._client, topic, group, settings)

    def __enter__(self) -> Self:
        self.consumer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[StreamChange]:
        """Raises: ValidationFailed: the table has no such stream; MessageFormatError."""
        decoder = StreamDecoder.of(self._table.schema(), self._topic, self._table.name)
        for record in self.consumer:
            change = decoder.record(record)
            if change.table == published_name(self._table.name):
                yield change

    def batches(self) -> Iterator[list[StreamChange]]:
        """What was fetched of one partition, as a list; without end until ``close``."""
        decoder = StreamDecoder.of(self._table.schema(), self._topic, self._table.name)
        for records in self.consumer.batches():
            found = map(decoder.record, records)
            yield [change for change in found if change.table == published_name(self._table.name)]

    def commit(self) -> None:
        """Commit all that was handed out so far, also the last one. Raises: LeaseNotHeld."""
        self.consumer.commit()

    def close(self) -> None:
        """Commit what is processed, and give the partitions up."""
        self.consumer.close()
        if self._owned:
            self._client.close()


class TableFollower:
    """As ``opentalos.sdk.aio.stream.TableFollower``. Look at the replica between two calls, not
    while another thread is in one.

    Args: client: shared with other objects, or a configuration for a client of its own; topic: as
    the table's schema names it, or OWNER/TOPIC if the table is OWNER/TABLE; complete: no scan: the
    stream is as old as the table, and all of it is retained.
    """

    def __init__(
        self, client: Client | ClientConfig, table: str, topic: str, *, complete: bool = False
    ) -> None:
        self._client, self._owned = attach(client)
        self._made: aio.TableFollower | None = None
        self._on = self._client.bind(
            lambda client: self._keep(aio.TableFollower(client, table, topic, complete=complete))
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def replica(self) -> Replica:
        """The table as it is known here. Raises: ClientClosed: before ``start``."""
        return self._follower().replica

    @property
    def consistent(self) -> bool:
        """Whether the replica only follows the table from now on; see the asyncio class."""
        return self._follower().consistent

    @property
    def positions(self) -> Mapping[int, int]:
        """The offset to read next, by partition."""
        return self._follower().positions

    def start(self) -> None:
        """Take a mark and scan the table; does nothing if that is done. Raises: as the asyncio
        class."""
        self._on(lambda follower: follower.start())

    def step(self) -> int:
        """Apply what the topic's partitions have next; how many changes were new. Raises: as the
        asyncio class."""
        return self._on(lambda follower: follower.step())

    def catch_up(self) -> int:
        """Apply everything that was written before this call; the time, in Unix ms, up to which
        nothing is missing. Raises: as the asyncio class."""
        return self._on(lambda follower: follower.catch_up())

    def close(self) -> None:
        """Close the client if it is this object's own."""
        if self._owned:
            self._client.close()

    def _keep(self, made: aio.TableFollower) -> aio.TableFollower:
        self._made = made
        return made

    def _follower(self) -> aio.TableFollower:
        if self._made is None:
            raise ClientClosed("the follower has not been started")
        return self._made
