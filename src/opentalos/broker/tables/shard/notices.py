"""Notifies all servers of a cluster of a changed table.

A change counts when every server works by it: one that still believes to own a shard would leave a
new stream out. ``shards.py`` calls this after a change.
"""

import asyncio
from typing import Final

from opentalos.broker.context import BrokerContext
from opentalos.broker.tables.shard.remote import ask_changed
from opentalos.catalog.tables.table import Table
from opentalos.model.errors import StoreUnavailable, TalosError

NOTIFY_S: Final = 15.0  # deadline for servers that do not answer
NOTIFY_PAUSE_S: Final = 0.2  # between two attempts


async def notify_all(context: BrokerContext, table: Table) -> None:
    """Return when every other server works by this record of the table or a newer one.

    Raises: StoreUnavailable: a server did not confirm it within ``NOTIFY_S``.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + NOTIFY_S
    notified: set[str] = set()
    while True:
        left = [address for address in context.ownership.others() if address not in notified]
        if not left:
            return
        errors = await asyncio.gather(*(_notify(context, address, table) for address in left))
        for address, error in zip(left, errors, strict=True):
            if error is None:
                notified.add(address)
        failed = [error for error in errors if error is not None]
        if failed and loop.time() >= deadline_s:
            raise StoreUnavailable(f"not every server works by the changed table: {failed[0]}")
        if failed:
            await asyncio.sleep(NOTIFY_PAUSE_S)


async def _notify(context: BrokerContext, address: str, table: Table) -> TalosError | None:
    peers = context.peers
    assert peers is not None
    try:
        await ask_changed(peers, address, (table.uuid, table.owner, table.name))
    except TalosError as error:
        return error
    return None
