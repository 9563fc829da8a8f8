"""Structured tables for synchronous code, derived from ``opentalos.sdk.aio.tables``."""

from collections.abc import Iterator
from typing import Any

from opentalos.sdk.aio import tables as aio
from opentalos.sdk.aio.tables.scan import ScanPage, ScanPosition, ScanQuery
from opentalos.sdk.core.config import ClientConfig
from opentalos.sdk.core.table.stream_state import StoredState
from opentalos.sdk.core.table.values import Row
from opentalos.sdk.sync.blocking import ClientObject, blocking, iterating
from opentalos.sdk.sync.client import Client


class TalosTable(ClientObject[aio.TalosTable]):
    """Reads and writes the rows of one table, as plain Python values by column.

    Each value is converted to the type of its column; the schema is cached. A ``Datum`` carries
    its own type. Reads, and puts and removes without a condition, are retried even if their
    outcome is unknown. An increment or a conditional write whose reply is lost raises
    OutcomeUnknown. Any thread may use it, also in a forked child.

    Args: client: shared with other objects, or the configuration of a client of its own.
    """

    def __init__(self, client: Client | ClientConfig, name: str) -> None:
        super().__init__(client, lambda client: aio.TalosTable(client, name))
        self.name = name

    schema = blocking(aio.TalosTable.schema)
    identity = blocking(aio.TalosTable.identity)
    get = blocking(aio.TalosTable.get)
    put = blocking(aio.TalosTable.put)
    increment = blocking(aio.TalosTable.increment)
    remove = blocking(aio.TalosTable.remove)
    batch = blocking(aio.TalosTable.batch)
    splits = blocking(aio.TalosTable.splits)
    _states_query = blocking(aio.TalosTable._states_query)
    _scan_page = blocking(aio.TalosTable._scan_page)
    _page_states = blocking(aio.TalosTable._page_states)

    @iterating(aio.TalosTable.scan)
    def scan(self, *args: Any, **kwargs: Any) -> Iterator[Row]:
        for page in self._pages(ScanQuery(*args, **kwargs)):
            yield from page.records

    @iterating(aio.TalosTable.states)
    def states(self, *args: Any, **kwargs: Any) -> Iterator[StoredState]:
        for page in self._pages(self._states_query(*args, **kwargs)):
            yield from self._page_states(page)

    def _pages(self, query: ScanQuery) -> Iterator[ScanPage]:
        position: ScanPosition | None = ScanPosition()
        while position is not None:
            page = self._scan_page(query, position)
            yield page
            position = page.following


class TableAdmin(ClientObject[aio.TableAdmin]):
    """Creates, alters, enables and describes tables.

    Any thread may use it, also in a forked child.

    Args: client: shared with other objects, or the configuration of a client of its own.
    """

    def __init__(self, client: Client | ClientConfig) -> None:
        super().__init__(client, aio.TableAdmin)

    create = blocking(aio.TableAdmin.create)
    alter = blocking(aio.TableAdmin.alter)
    drop = blocking(aio.TableAdmin.drop)
    enable = blocking(aio.TableAdmin.enable)
    disable = blocking(aio.TableAdmin.disable)
    describe = blocking(aio.TableAdmin.describe)
    list = blocking(aio.TableAdmin.list)
    state = blocking(aio.TableAdmin.state)
    mark = blocking(aio.TableAdmin.mark)
    server_time_s = blocking(aio.TableAdmin.server_time_s)
