"""The change stream of a table for synchronous code, derived from ``opentalos.sdk.aio.stream``."""

from collections.abc import Generator, Iterator, Mapping
from typing import Self

from opentalos.sdk.aio import stream as aio
from opentalos.sdk.aio.connection.client import Client as AsyncClient
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.consumer.continuing import Continuing
from opentalos.sdk.core.consumer.settings import ConsumerSettings
from opentalos.sdk.core.table.stream_decode import StreamChange, StreamDecoder, published_name
from opentalos.sdk.core.table.stream_state import Replica
from opentalos.sdk.errors import ClientClosed
from opentalos.sdk.sync.blocking import ClientObject, blocking
from opentalos.sdk.sync.client import Client, attach
from opentalos.sdk.sync.tables import TalosTable
from opentalos.sdk.sync.talos_consumer import TalosConsumer


class ChangeReader:
    """Reads the changes of a table as a member of a consumer group: ``for change in reader``.

    What counts as processed, and what is committed, is as for ``TalosConsumer``. Delivery is
    at least once, in order per row; redelivery repeats a change and those after it. Use
    ``Replica`` to discard duplicates, or compare timestamp and sequence per row.

    Args: client: shared with other objects, or the configuration of a client of its own; topic:
    as in the table's schema, or OWNER/TOPIC if the table is OWNER/TABLE.
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
        """Raises: ValidationFailed: the table has no such stream; MessageFormatError; CorruptLog,
        as ``TalosConsumer``."""
        return Continuing(self._changes)

    def _changes(self) -> Generator[StreamChange, None, None]:
        decoder = StreamDecoder.of(self._table.schema(), self._topic, self._table.name)
        for record in self.consumer:
            change = decoder.record(record)
            if change.table == published_name(self._table.name):
                yield change

    def batches(self) -> Iterator[list[StreamChange]]:
        """The changes fetched from one partition, as a list; ends with ``close``."""
        return Continuing(self._batches)

    def _batches(self) -> Generator[list[StreamChange], None, None]:
        decoder = StreamDecoder.of(self._table.schema(), self._topic, self._table.name)
        table = published_name(self._table.name)
        for records in self.consumer.batches():
            found = map(decoder.record, records)
            yield [change for change in found if change.table == table]

    def commit(self) -> None:
        """Commit the positions after everything delivered so far. Raises: LeaseNotHeld."""
        self.consumer.commit()

    def close(self) -> None:
        """Commit what is processed, and release the partitions."""
        self.consumer.close()
        if self._owned:
            self._client.close()


class TableFollower(ClientObject[aio.TableFollower]):
    """Keeps a replica of a table in memory; see ``opentalos.sdk.aio.stream.TableFollower``.

    Read the replica between two calls, not while another thread is in one.

    Args: client: shared with other objects, or the configuration of a client of its own; topic:
    as in the table's schema, or OWNER/TOPIC if the table is OWNER/TABLE; complete: skip the scan;
    the stream must be as old as the table and fully retained.
    """

    def __init__(
        self, client: Client | ClientConfig, table: str, topic: str, *, complete: bool = False
    ) -> None:
        self._follower: aio.TableFollower | None = None

        def make(client: AsyncClient) -> aio.TableFollower:
            self._follower = aio.TableFollower(client, table, topic, complete=complete)
            return self._follower

        super().__init__(client, make)

    def __enter__(self) -> Self:
        self.start()
        return self

    start = blocking(aio.TableFollower.start)
    step = blocking(aio.TableFollower.step)
    catch_up = blocking(aio.TableFollower.catch_up)

    @property
    def replica(self) -> Replica:
        """The table as known so far. Raises: ClientClosed: before ``start``."""
        return self._started().replica

    @property
    def consistent(self) -> bool:
        """Whether the replica has reached a consistent state; see the asyncio class."""
        return self._started().consistent

    @property
    def positions(self) -> Mapping[int, int]:
        """The next offset to read, by partition."""
        return self._started().positions

    def _started(self) -> aio.TableFollower:
        if self._follower is None:
            raise ClientClosed("the follower is not started; call start() first")
        return self._follower
